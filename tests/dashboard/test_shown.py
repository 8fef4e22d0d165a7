"""How values are shown, and how addresses are written: without a browser and without a cluster."""

import pytest

from staticfire.control.login_cookie import cookie_until, is_logged_in
from staticfire.dashboard.addresses import address, match
from staticfire.dashboard.shown import TEXT_CHARS_MAX, body_shown, bytes_text, duration_text, hex_rows, moment_text
from staticfire.dashboard.site import event_of, why_not_same_site
from staticfire.dashboard.views.letters import ages
from staticfire.dashboard.views.tables import columns, pager
from staticfire.dashboard.watch import BrokerCounters, ClusterSample, rates

A = "10.0.0.1:10911"


@pytest.mark.parametrize("name", ["orders", "a/b", "ä ö", '"><script>', "100%", "a?b=c#d", "..", "a\\b", "日本"])
def test_every_name_is_the_same_after_an_address(name: str) -> None:
    raw = address("/topics/{topic}", {"topic": name}).removeprefix("/ui")
    assert match("/topics/{topic}", raw.partition("?")[0]) == {"topic": name}
    assert not set(raw) & set('"<> \\')


def test_an_address_of_another_page_doesnt_match() -> None:
    assert match("/topics", "/groups") is None
    assert match("/topics/{topic}", "/topics") is None
    assert match("/", "/") == {}


def test_empty_parameters_are_left_out_of_an_address() -> None:
    assert address("/topics", match="", page=2, sort=None) == "/ui/topics?page=2"


def test_text_is_shown_as_text() -> None:
    shown = body_shown('{"price": "9.99 €"}\n'.encode())
    assert (shown["text"], shown["is_text"], shown["hex"]) == ('{"price": "9.99 €"}\n', True, "")


def test_bytes_are_shown_as_hex_too() -> None:
    shown = body_shown(bytes(range(256)))
    assert shown["is_text"] is False
    assert str(shown["hex"]).splitlines()[0] == (
        "000000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................"
    )


@pytest.mark.parametrize("body", [b"x" * 4 * 1024 * 1024, "€".encode() * 1_400_000])
def test_of_a_large_body_only_the_beginning_is_shown(body: bytes) -> None:
    shown = body_shown(body)
    assert len(str(shown["text"])) == TEXT_CHARS_MAX
    assert (shown["is_text"], shown["is_cut"], shown["bytes"]) == (True, True, len(body))


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 ms"), (999, "999 ms"), (61_000, "1 min 1 s"), (-3_600_000, "-1 h"), (90_061_000, "1 d 1 h")]
)
def test_durations(ms: int, text: str) -> None:
    assert duration_text(ms) == text


def test_sizes_and_times() -> None:
    assert [bytes_text(count) for count in (0, 1023, 1536, 5 * 1024**3)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
    assert moment_text(0) == "1970-01-01 00:00:00 UTC"
    assert moment_text(1 << 62) == f"{1 << 62} ms"
    assert hex_rows(b"AB\x00") == f"000000  {'41 42 00':<47}  AB."


def test_a_login_counts_until_its_end_and_for_its_token_only() -> None:
    cookie = cookie_until("correct-horse", 1_000)
    assert is_logged_in("correct-horse", cookie, 999)
    assert not is_logged_in("correct-horse", cookie, 1_000)
    assert not is_logged_in("another-token", cookie, 999)
    for wrong in (None, "", "1000", "1000.", f"2000.{cookie.partition('.')[2]}", "x.y", "9" * 30, "1000.ä"):
        assert not is_logged_in("correct-horse", wrong, 999)


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({"Host": "a:1", "Origin": "http://a:1"}, False),
        ({"Host": "a:1", "Sec-Fetch-Site": "same-origin"}, False),
        ({"Host": "a:1", "Origin": "http://b:1"}, True),
        ({"Host": "a:1", "Origin": "null"}, True),
        ({"Host": "a:1", "Origin": "http://a:1", "Sec-Fetch-Site": "cross-site"}, True),
        ({"Host": "a:1", "Sec-Fetch-Site": "same-site"}, True),
        ({"Host": "a:1"}, True),
    ],
)
def test_an_action_must_come_from_a_page_of_this_endpoint(headers: dict[str, str], is_refused: bool) -> None:
    assert bool(why_not_same_site(headers)) == is_refused


def test_columns_sort_numbers_from_the_largest_and_then_in_the_opposite_order() -> None:
    titles = {"topic": "Topic", "messages": "Messages"}
    name, count = columns("/topics", {"match": "x", "page": "3"}, titles, frozenset({"messages"}), "-messages")
    assert (name.link, name.order) == ("/ui/topics?match=x&sort=topic", "none")
    assert (count.link, count.order) == ("/ui/topics?match=x&sort=messages", "descending")


def test_a_pager_has_neighbours_only_where_there_are_rows() -> None:
    first, last = pager("/topics", {}, 1, 120), pager("/topics", {"match": "x"}, 3, 120)
    assert (first.first, first.last, first.before, first.after) == (1, 50, "", "/ui/topics?page=2")
    assert (last.first, last.last, last.before, last.after) == (101, 120, "/ui/topics?match=x&page=2", "")


def test_rates_ignore_a_counter_that_was_started_again() -> None:
    samples = [
        ClusterSample(0, {A: BrokerCounters(100, 50)}, 5),
        ClusterSample(2_000, {A: BrokerCounters(140, 60)}, 4),
        ClusterSample(4_000, {A: BrokerCounters(10, 80)}, 3),
        ClusterSample(4_000, {A: BrokerCounters(10, 80)}, 3),
    ]
    found = rates(samples)
    assert found == {"times": [2.0, 4.0], "stored": [20.0, 0.0], "delivered": [5.0, 10.0], "lag": [4, 3]}


def test_rates_have_a_gap_where_a_broker_is_silent_or_responds_again() -> None:
    both = {A: BrokerCounters(100, 100), "10.0.0.2:10911": BrokerCounters(400_000, 400_000)}
    there = [both, {A: both[A]}, {A: both[A]}, both, both]
    found = rates([ClusterSample(2_000 * number, brokers, 0) for number, brokers in enumerate(there)])
    assert found["stored"] == found["delivered"] == [None, 0.0, None, 0.0]


def test_an_event_is_one_line_for_each_line() -> None:
    assert event_of("a\nb") == b"data: a\ndata: b\n\n"
    assert event_of("") == b": \n\n"


def test_ages_of_dead_letters() -> None:
    hour = 3_600_000
    assert ages([0, hour - 1, hour, 200 * hour]) == [
        ("less than an hour", 2), ("less than a day", 1), ("a week or more", 1),
    ]  # fmt: skip

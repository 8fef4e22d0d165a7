"""What the endpoint keeps of its clients' settings has limits; docs/grpc-limits.md lists them."""

from pathlib import Path

import pytest

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services import client_table, held_messages, known_cluster, open_transactions
from staticfire.proxy.services.client_table import CLIENT_EXPIRED_MS, SETTINGS_BYTES_MAX, SETTINGS_TOPICS_MAX
from staticfire.proxy.transport.calls import GrpcError, GrpcStatus
from tests.proxy.grpc_stand import GROUP, TOPIC, GrpcStand, consumer_settings, producer_settings, resource

pytestmark = pytest.mark.row("G3")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "grpc-limits.md"


def with_host_name(characters: int) -> pb.Settings:
    settings = producer_settings(TOPIC)
    settings.user_agent.hostname = "x" * characters
    return settings


def subscribing(topics: int) -> pb.Settings:
    settings = consumer_settings()
    [entry] = settings.subscription.subscriptions
    for number in range(1, topics):
        another = settings.subscription.subscriptions.add()
        another.CopyFrom(entry)
        another.topic.name = f"{TOPIC}-{number}"
    return settings


async def refusal(stand: GrpcStand, client_id: str, settings: pb.Settings) -> GrpcError:
    """Send settings that are refused; return the error that ends the stream."""
    error = await stand.stream(client_id).refused(settings)
    kept = stand.service.clients.get(client_id)
    assert kept is None or kept.settings != settings
    return error


async def test_settings_that_are_too_large_end_their_stream(stand: GrpcStand) -> None:
    settings = with_host_name(SETTINGS_BYTES_MAX)
    error = await refusal(stand, "c1", settings)
    assert error.status == GrpcStatus.INVALID_ARGUMENT
    assert error.message.endswith(
        f"the settings of client c1 have {settings.ByteSize()} bytes, more than SETTINGS_BYTES_MAX (262144): shorten "
        "their filter expressions, or distribute their topics over several clients"
    )


@pytest.mark.parametrize("settings", [subscribing(1_001), producer_settings(*[f"t{one}" for one in range(1_001)])])
async def test_settings_with_too_many_topics_end_their_stream(stand: GrpcStand, settings: pb.Settings) -> None:
    error = await refusal(stand, "c1", settings)
    assert error.status == GrpcStatus.INVALID_ARGUMENT
    assert error.message.endswith(
        "the settings of client c1 have 1001 topics, more than SETTINGS_TOPICS_MAX (1000): distribute them over "
        "several clients"
    )


async def test_a_client_may_subscribe_to_hundreds_of_topics(stand: GrpcStand) -> None:
    assert SETTINGS_TOPICS_MAX == 1_000
    answer = await stand.stream().settings(subscribing(500))
    assert len(answer.subscription.subscriptions) == 500


async def test_a_full_table_refuses_new_clients_until_others_have_left(
    stand: GrpcStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_table, "CLIENTS_MAX", 2)
    await stand.consumer("c1")
    await stand.consumer("c2")
    error = await refusal(stand, "c3", consumer_settings())
    assert error.status == GrpcStatus.RESOURCE_EXHAUSTED
    assert error.message.endswith(
        "client c3 can't be added: this endpoint has 2 clients, its maximum (CLIENTS_MAX); retry when one of them has "
        "terminated or has been silent for 120 s, or connect to another endpoint"
    )
    await stand.consumer("c2", "another")  # Known clients may replace their settings.
    await stand.call("NotifyClientTermination", client_id="c1", group=resource(GROUP))
    await stand.consumer("c3")


async def test_silent_clients_make_room(stand: GrpcStand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_table, "CLIENTS_MAX", 1)
    await stand.consumer("quiet")
    await refusal(stand, "c1", consumer_settings())
    await stand.world.run_for(CLIENT_EXPIRED_MS + 10_000)
    await stand.consumer("c1")


async def test_the_settings_of_all_clients_have_a_limit_together(
    stand: GrpcStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_table, "CLIENTS_BYTES_MAX", 250_000)
    await stand.stream("large").settings(with_host_name(200_000))
    await stand.stream("small").settings(with_host_name(10))
    error = await refusal(stand, "c1", with_host_name(100_000))
    assert error.status == GrpcStatus.RESOURCE_EXHAUSTED
    assert "the settings of all clients would exceed 250000 bytes (CLIENTS_BYTES_MAX)" in error.message
    await refusal(stand, "small", with_host_name(100_000))
    await stand.stream("large").settings(with_host_name(150_000))
    await stand.stream("small").settings(with_host_name(20))
    await stand.stream("c1").settings(with_host_name(90_000))


async def test_topics_count_for_what_they_take(stand: GrpcStand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_table, "CLIENTS_BYTES_MAX", 250_000)
    error = await refusal(stand, "c1", producer_settings(*[f"t{one}" for one in range(500)]))
    assert error.status == GrpcStatus.RESOURCE_EXHAUSTED


def shown(limit: int) -> str:
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if limit % size == 0:
            return f"{limit // size} {unit}"
    return f"{limit:,}"


def test_the_page_of_limits_has_what_is_kept_for_clients() -> None:
    limits = {
        "SETTINGS_BYTES_MAX": client_table,
        "SETTINGS_TOPICS_MAX": client_table,
        "CLIENTS_MAX": client_table,
        "CLIENTS_BYTES_MAX": client_table,
        "HELD_MAX": held_messages,
        "TRANSACTIONS_MAX": open_transactions,
        "NAMES_MAX": known_cluster,
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, module in limits.items():
        assert f"| `{name}` {shown(getattr(module, name))} |" in page, name

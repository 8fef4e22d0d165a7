"""Options: what a query may say, and one line for everything that it may not."""

import pytest

from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.offsets import GivenOffsets
from staticfire.pipeline.options import check_for_batch, check_for_stream, parse_options
from staticfire.protocol.errors import UsageError

PLACE = {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}


def test_defaults_are_those_of_the_documentation() -> None:
    options = parse_options(PLACE, {})
    assert (options.name_server, options.topics, options.protocol) == ("127.0.0.1:9876", ("orders",), "staticfire")
    assert options.starting_offsets is None
    assert options.ending_offsets == "latest"
    assert options.fail_on_data_loss
    assert options.expression.wants_all


def test_names_have_any_case_and_the_old_connectors_topic_will_do() -> None:
    options = parse_options({"nameserver": "a:1;b:2", "TOPIC": "orders", "pullbatchsize": "7"}, {})
    assert (options.name_server, options.topics, options.pull_batch_size) == ("a:1;b:2", ("orders",), 7)


def test_nameserver_comes_from_the_environment_where_the_query_names_none() -> None:
    assert parse_options({"subscribe": "a"}, {"NAMESRV_ADDR": "ns:9876"}).name_server == "ns:9876"
    assert parse_options(PLACE, {"NAMESRV_ADDR": "ns:9876"}).name_server == "127.0.0.1:9876"


def test_topics_are_a_list_with_commas() -> None:
    assert parse_options(PLACE | {"subscribe": "orders, payments,orders"}, {}).topics == ("orders", "payments")


def test_offsets_by_queue_are_read() -> None:
    options = parse_options(PLACE | {"startingOffsets": '{"orders":{"broker-a":{"0":23,"1":-2}}}'}, {})
    assert isinstance(options.starting_offsets, GivenOffsets)
    assert options.starting_offsets.offsets == {
        MessageQueue("orders", "broker-a", 0): 23,
        MessageQueue("orders", "broker-a", 1): -2,
    }


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("maxOffsetsPerTrigger", "max_offsets_per_trigger"),
        ("minPartitions", "min_partitions"),
        ("pullBatchSize", "pull_batch_size"),
        ("pullsInFlight", "pulls_in_flight"),
        ("pullTimeoutMs", "pull_timeout_ms"),
        ("reconnectTimeoutMs", "reconnect_timeout_ms"),
    ],
)
def test_numbers_are_taken_as_they_are_given(name: str, field: str) -> None:
    assert getattr(parse_options(PLACE | {name: "41"}, {}), field) == 41


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingofsets": "earliest"}, "startingofsets is not an option .* did you mean startingOffsets"),
        ({"colour": "red"}, "colour is not an option .* the options are: nameServer, subscribe"),
        ({"path": "/data"}, "path: load\\(\\) accepts no path"),
        ({"subscribePattern": "a.*"}, "subscribe and subscribePattern both select topics"),
        ({"subscribe": ""}, "subscribe is missing"),
        ({"topic": "orders"}, "subscribe and topic both select"),
        ({"subscribe": "or ders"}, "subscribe=or ders: 'or ders' can't be a topic"),
        ({"nameServer": "here"}, "nameServer=here: 'here' is not an address"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0: write a whole number of at least 1"),
        ({"minPartitions": "two"}, "minPartitions=two: write a whole number"),
        ({"pullBatchSize": "70000"}, "pullBatchSize=70000: write a whole number from 1 to 65536"),
        ({"startingTimestamp": "today"}, "startingTimestamp=today: .* milliseconds since 1970"),
        (
            {"startingTimestamp": "10" * 20},
            "startingTimestamp=.*: write a whole number from 0 to 999999999999999, milli",
        ),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe: write true or false"),
        ({"protocol": "kafka"}, "protocol=kafka: write staticfire or rocketmq"),
        ({"subExpression": "||"}, "subExpression=\\|\\|: '\\|\\|' contains no tag"),
        ({"expression": "a = "}, 'expression=a =: Encountered "<EOF>" at line 1, column 3. Was expecting one of: '),
        ({"expression": "a ="}, "it was read as SQL92; if it is a tag, set expressionType=TAG"),
        ({"expression": "a b", "expressionType": "SQL"}, "expressionType=SQL: write tag or sql92"),
        ({"expression": "||"}, "contains no tag"),
        ({"expressionType": "TAG"}, "expressionType=TAG: it needs the option expression"),
        ({"expression": "a", "subExpression": "b"}, "expression and subExpression both select"),
        ({"group": "a b"}, "group=a b: "),
        ({"startingOffsets": "first"}, "startingOffsets=first: write earliest, latest or JSON like"),
        ({"startingOffsets": '{"orders":{"a":{"x":1}}}'}, "'x' is not a queue id"),
        ({"startingOffsets": '{"orders":{"a":{"0":-3}}}'}, "the offset of orders a/0 is -3"),
        ({"endingOffsets": '{"other":{"a":{"0":3}}}'}, "endingOffsets names topic other, which isn't subscribed to"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        parse_options(PLACE | given, {})
    assert "\n" not in str(refused.value)


def test_missing_nameserver_names_both_ways_to_give_it() -> None:
    with pytest.raises(UsageError, match=r"nameServer is missing: .* or set NAMESRV_ADDR"):
        parse_options({"subscribe": "orders"}, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest: a batch that starts at the end .* write earliest"),
        ({"startingOffsets": '{"orders":{"a":{"0":-1}}}'}, "-1 means latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest: .* write latest"),
        ({"endingOffsets": '{"orders":{"a":{"0":-2}}}'}, "-2 means earliest"),
    ],
)
def test_batch_reads_something(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_for_batch(parse_options(PLACE | given, {}))


@pytest.mark.parametrize("given", [{"endingOffsets": "latest"}, {"endingTimestamp": "5"}])
def test_stream_has_no_end(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is only for batch queries"):
        check_for_stream(parse_options(PLACE | given, {}))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribePattern": "a("}, "subscribePattern=a\\(: this is not a regular expression: missing"),
        ({"subscribePattern": ""}, "subscribe is missing"),
        (
            {"subscribePattern": "a.*", "startingOffsets": '{"b":{"x":{"0":1}}}'},
            "startingOffsets names topic b, which subscribePattern=a.* doesn't match",
        ),
    ],
)
def test_pattern_that_cannot_be_used_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_options({"nameServer": "127.0.0.1:9876"} | given, {})

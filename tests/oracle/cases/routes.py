"""What clients ask a nameserver: 105, 106, 206, and the key-value codes."""

from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.step import Ask, Step


def ask(name: str, code: int, fields: dict[str, str] | None, **more: object) -> Ask:
    return replace(Ask(name, code, fields, to="nameserver"), **more)  # type: ignore[arg-type]


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield ask("route", 105, {"topic": "{run}orders"})
    yield ask("route of a wide topic", 105, {"topic": "{run}uneven"})
    yield ask("route as old clients read it", 105, {"topic": "{run}orders"}, header={"version": 399}, reads="bytes")
    yield ask("route as new clients read it", 105, {"topic": "{run}orders"}, reads="bytes")
    standard = {"topic": "{run}orders", "acceptStandardJsonOnly": "true"}
    yield ask("route in standard JSON", 105, standard, header={"version": 300}, reads="bytes")
    yield ask("route of TBW102", 105, {"topic": "TBW102"})
    yield ask("route of an unknown topic", 105, {"topic": "{run}unknown"})
    yield ask("route of an unknown retry topic", 105, {"topic": "%RETRY%{run}unknown"})
    yield ask("route of no topic", 105, {})
    yield ask("route without fields", 105, None)
    yield ask("route of the empty topic", 105, {"topic": ""})
    yield ask("route of a write-only topic", 105, {"topic": "{run}write-only"})
    yield ask("route of a topic without queues", 105, {"topic": "{run}without-queues"})
    yield ask("route of a deleted topic", 105, {"topic": "{run}deleted"})
    yield ask("cluster info", 106, None)
    yield ask("cluster info, the bytes", 106, {}, reads="bytes")
    yield ask("system topics of the nameserver", 304, {})
    yield ask("topics of an unknown cluster", 224, {"cluster": "nope"})
    yield ask("topics of no cluster", 224, {})
    yield ask("put a value", 100, {"namespace": "{run}n", "key": "k", "value": "v"})
    yield ask("get a value", 101, {"namespace": "{run}n", "key": "k"})
    yield ask("get an unknown value", 101, {"namespace": "{run}n", "key": "nope"})
    yield ask("get a value without key", 101, {"namespace": "{run}n"})
    yield ask("put a value without key", 100, {"namespace": "{run}n", "value": "v"})
    yield ask("put a key without value", 100, {"namespace": "{run}n", "key": "empty"})
    yield ask("values of a namespace", 219, {"namespace": "{run}n"})
    yield ask("values of an unknown namespace", 219, {"namespace": "{run}unknown"})
    yield ask("delete a value", 102, {"namespace": "{run}n", "key": "k"})
    yield ask("delete an unknown value", 102, {"namespace": "{run}n", "key": "nope"})
    yield ask("members of a broker", 901, {"clusterName": "DefaultCluster", "brokerName": "broker-a"})
    yield ask("members of an unknown broker", 901, {"clusterName": "DefaultCluster", "brokerName": "nope"})
    yield ask("wipe an unknown broker", 205, {"brokerName": "nope"})
    yield ask(
        "unregister an unknown broker",
        104,
        {"clusterName": "c", "brokerName": "n", "brokerAddr": "1.2.3.4:5", "brokerId": "0"},
    )
    yield ask(
        "version of an unknown broker",
        322,
        {"clusterName": "c", "brokerName": "n", "brokerAddr": "1.2.3.4:5", "brokerId": "0"},
        body=b'{"counter":1,"stateVersion":0,"timestamp":1}',
    )
    yield ask("a broker's code", 10, {"topic": "x"})
    yield ask("an unknown code", 9999, {})
    yield ask("a code that nobody serves", 302, {})
    yield ask("register without fields", 103, {})

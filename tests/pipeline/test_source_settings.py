"""Options of the source, each with another value than its default, by requests and by the simulated time."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from staticfire import Cluster
from staticfire.client import ClusterClient
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.link import link_to
from staticfire.pipeline.options import SourceOptions, parse_options
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.pipeline.sink_options import SinkOptions, parse_sink_options
from staticfire.pipeline.survey import all_topics
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.tls.folder import CertificateWish, fill
from tests.scenarios.consuming import NAMESRV, TOPIC
from tests.scenarios.faulty_shop import FaultyShop
from tests.scenarios.polling import QUEUE

COUNT = 60
ALL = QueueRange(QUEUE, 0, COUNT)


@pytest_asyncio.fixture
async def shop(shop: FaultyShop) -> FaultyShop:
    await shop.send(*(b"%d" % number for number in range(COUNT)))
    return shop


def options_of(**given: str) -> SourceOptions:
    return parse_options({"nameServer": NAMESRV, "subscribe": TOPIC, **given}, {})


async def read_all(client: ClusterClient, options: SourceOptions) -> None:
    pulls = PullAhead(client, options, ALL)
    while await pulls.take() is not None:
        pass


@pytest.mark.parametrize("in_flight", [1, 2, 3])
async def test_how_many_pulls_of_a_task_are_in_flight(shop: FaultyShop, client: ClusterClient, in_flight: int) -> None:
    await shop.add(code="PULL_MESSAGE", after=1, delay="2s")
    pulls = PullAhead(client, options_of(pullsInFlight=str(in_flight), pullBatchSize="2"), ALL)
    await shop.world.run_for(seconds=1)
    assert await shop.hits() == [in_flight]
    await pulls.stop()


async def test_a_pull_without_a_response_is_sent_again_after_its_timeout(
    shop: FaultyShop, client: ClusterClient
) -> None:
    await shop.add(code="PULL_MESSAGE", drop="answer", times=1)
    began_ms = shop.world.uptime_ms
    await read_all(client, options_of(pullTimeoutMs="700"))
    assert 700 < shop.world.uptime_ms - began_ms < 1_500


async def test_brokers_see_the_group_of_the_options(shop: FaultyShop, client: ClusterClient) -> None:
    await shop.add(code="PULL_MESSAGE", group="readers", delay="1ms")
    await read_all(client, options_of())
    assert await shop.hits() == [0]
    await read_all(client, options_of(group="readers"))
    assert (await shop.hits())[0] > 0


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of one CA; the client's key has a password."""
    folder = tmp_path_factory.mktemp("certs")
    fill(str(folder), CertificateWish(("localhost",), 30, "changeit"))
    key = load_pem_private_key((folder / "client.key.pem").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"s3cret"))
    (folder / "locked.pem").write_bytes(locked)
    return folder


@pytest.fixture(scope="module")
def strict(certs: Path) -> Iterator[dict[str, str]]:
    """A cluster that accepts only clients with a certificate of its CA; the options of such a client."""
    client = {
        "tls.client.trustCertPath": str(certs / "ca.pem"),
        "tls.client.certPath": str(certs / "client.pem"),
        "tls.client.keyPath": str(certs / "locked.pem"),
        "tls.client.keyPassword": "s3cret",
    }
    server = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(certs / "server.pem"),
        "tls.server.keyPath": str(certs / "server.key.pem"),
        "tls.server.trustCertPath": str(certs / "ca.pem"),
        "tls.server.need.client.auth": "require",
    }
    with Cluster(settings=server | client) as cluster:
        yield {"nameServer": cluster.namesrv, "subscribe": "TBW102", "tls.enable": "true", **client}


Parse = Callable[[Mapping[str, str], Mapping[str, str]], SourceOptions | SinkOptions]


def parse_sink(given: Mapping[str, str], environment: Mapping[str, str]) -> SinkOptions:
    return parse_sink_options({name: text for name, text in given.items() if name != "subscribe"}, environment)


@pytest.mark.parametrize("parse", [parse_options, parse_sink])
def test_source_and_sink_speak_tls_with_each_of_its_options(
    strict: dict[str, str], certs: Path, tmp_path: Path, parse: Parse
) -> None:
    def topics(**changed: str | None) -> int:
        names = {"trust": "tls.client.trustCertPath", "auth": "tls.client.authServer", "cert": "tls.client.certPath",
                 "key": "tls.client.keyPath", "password": "tls.client.keyPassword", "tls": "tls.enable"}  # fmt: skip
        given = strict | {names[name]: text for name, text in changed.items() if text is not None}
        for name in (names[name] for name, text in changed.items() if text is None):
            given.pop(name, None)
        return len(link_to(parse(given, {})).ask(lambda client: all_topics(client))[1])

    fill(str(tmp_path), CertificateWish(("localhost",), 30, "changeit"))
    other_ca = str(tmp_path / "ca.pem")
    assert topics() > 0
    assert topics(trust=other_ca, auth="false") > 0
    with pytest.raises(SourceUnreachable, match="the server's certificate was rejected"):
        topics(trust=other_ca)
    with pytest.raises(SourceUnreachable):
        topics(cert=None, key=None, password=None)
    with pytest.raises(SourceUnreachable):
        topics(cert=str(tmp_path / "client.pem"), key=str(tmp_path / "client.key.pem"), password=None)
    with pytest.raises(StaticfireError, match="password"):
        topics(password="wrong")
    with pytest.raises(SourceUnreachable, match="TLS"):
        topics(tls="false")


@pytest.mark.parametrize("parse", [parse_options, parse_sink])
def test_tls_that_an_option_turns_off_is_off_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, parse: Parse
) -> None:
    with Cluster(settings={"tls.server.mode": "disabled"}) as cluster:
        monkeypatch.setenv("STATICFIRE_TLS_ENABLE", "true")
        given = {"nameServer": cluster.namesrv, "subscribe": "TBW102"}
        if parse is parse_sink:
            given["topic"] = "TBW102"
        with pytest.raises(SourceUnreachable, match="TLS"):
            link_to(parse(given, {})).ask(all_topics)
        topics, _ = link_to(parse(given | {"tls.enable": "false"}, {})).ask(all_topics)
        assert "TBW102" in topics
        monkeypatch.delenv("STATICFIRE_TLS_ENABLE")

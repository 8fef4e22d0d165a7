"""Access keys of the source and the sink."""

import pytest

from staticfire import Cluster
from staticfire.pipeline.batch_plan import plan_batch
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.link import link_to
from staticfire.pipeline.options import SourceOptions, parse_options
from staticfire.pipeline.sink_options import parse_sink_options
from staticfire.protocol.errors import UsageError

pytestmark = pytest.mark.row("G7")


def options(namesrv: str, **keys: str) -> SourceOptions:
    return parse_options({"nameServer": namesrv, "subscribe": "orders", **keys}, {})


def test_a_source_signs_with_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_ACCESS_KEY", raising=False)
    monkeypatch.delenv("ROCKETMQ_SECRET_KEY", raising=False)
    with Cluster(users={"admin": "secret", "shop": "s3cret"}) as cluster:
        cluster.create_topic("orders")
        cluster.users.allow("shop", "Topic:orders", "Get,Sub")

        def plan(read: SourceOptions) -> int:
            return len(link_to(read).ask(lambda client: plan_batch(client, read)))

        assert plan(options(cluster.namesrv, accessKey="shop", secretKey="s3cret")) == 0
        with pytest.raises(SourceUnreachable, match="check signature failed"):
            plan(options(cluster.namesrv, accessKey="shop", secretKey="wrong"))
        with pytest.raises(SourceUnreachable, match="username cannot be null"):
            plan(options(cluster.namesrv))


def test_a_key_without_its_secret_is_refused_and_secrets_are_not_shown() -> None:
    with pytest.raises(UsageError, match="belong together"):
        options("127.0.0.1:9876", accessKey="shop")
    sink = parse_sink_options({"nameServer": "127.0.0.1:9876", "accessKey": "shop", "secretKey": "s3cret"}, {})
    assert (sink.access_key, sink.secret_key, "s3cret" in repr(sink)) == ("shop", "s3cret", False)

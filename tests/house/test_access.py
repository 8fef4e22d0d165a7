"""The permission table has each request that a broker handles, and nothing else."""

from staticfire.broker.access.needs import NEEDS, OPEN, UNJUDGED
from staticfire.broker.access.plain_acl import ADMIN_CODES
from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import name_of_request
from staticfire.runtime.live import live_machine


def handled() -> set[int]:
    # With plain_acl.yml, because some requests are handled only then.
    settings = BrokerSettings(store_path_root_dir="/nowhere", plain_acl_file="/nowhere/plain_acl.yml")
    broker = Broker(live_machine(), settings)
    return set(broker.dispatcher.routes.handlers)


async def test_each_request_is_in_the_permission_table() -> None:
    known = set(NEEDS) | set(UNJUDGED)
    assert sorted(map(name_of_request, handled() - known)) == []
    assert sorted(map(name_of_request, known - handled())) == []


def test_open_requests_are_the_ones_without_a_rule() -> None:
    assert all(not list(NEEDS[code](None, "c")) for code in OPEN)
    assert ADMIN_CODES & set(NEEDS)

"""Who can use a cluster that other machines can reach. Pure, but for its import of addresses.

A cluster listens on the loopback unless it is opened with --listen. Opened, it is anyone's who reaches the port, unless
it judges users, or requires certificates.
"""

from staticfire.launch.plan import ClusterPlan
from staticfire.runtime.config import field_of
from staticfire.runtime.tls.settings import ENFORCING, REQUIRED_AUTH

HOW = (
    "anyone who reaches this machine can read, send and delete everything: listen on one address of a trusted network, "
    "name users, or require certificates (tls.server.mode=enforcing, tls.server.need.client.auth=require)"
)


def exposure(plan: ClusterPlan, listen: str) -> str:
    """Return a warning if a cluster is open to other machines without any check of who they are; "" otherwise."""
    from staticfire.control.access import is_loopback  # Imported here, because few starts listen elsewhere.

    if is_loopback(listen) or _judges_users(plan) or _requires_certificates(plan):
        return ""
    return f"--listen {listen}: {HOW}"


def _judges_users(plan: ClusterPlan) -> bool:
    name = field_of(type(plan.brokers[0]), "authenticationEnabled")
    return name is not None and all(getattr(broker, name) for broker in plan.brokers)


def _requires_certificates(plan: ClusterPlan) -> bool:
    servers = [*plan.nameservers, *plan.brokers]
    return plan.proxy is None and all(
        one.tls_server_mode == ENFORCING and one.tls_server_need_client_auth == REQUIRED_AUTH for one in servers
    )

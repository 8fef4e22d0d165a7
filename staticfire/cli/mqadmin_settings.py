"""`staticfire mqadmin`: settings of brokers, nameservers and groups, and the nameservers' key-value table."""

from collections.abc import Mapping

import click

from staticfire.cli.mqadmin_frame import addresses, ask, group_flag, mqadmin, option, run, target_flags
from staticfire.cli.options import namesrv_flag
from staticfire.client import Admin
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.requests.config import GetBrokerConfig, UpdateBrokerConfig
from staticfire.protocol.requests.groups import GetAllGroups, GroupConfigTable, SubscriptionGroupConfig
from staticfire.protocol.requests.routes import GetNameserverConfig

NAME_WIDTH, GROUP_NAME_WIDTH = 50, 40
KEY, VALUE = ("-k", "--key"), ("-v", "--value")


@mqadmin.command("getBrokerConfig")
@namesrv_flag
@target_flags
def get_broker_config(namesrv: str, cluster: str | None, broker: str | None) -> None:
    """Show all settings of brokers."""

    async def work(admin: Admin) -> None:
        for address in await addresses(admin, cluster, broker):
            _show_settings(address, (await ask(admin, address, GetBrokerConfig())).body)

    run(namesrv, work)


@mqadmin.command("updateBrokerConfig")
@namesrv_flag
@target_flags
@option(*KEY, required=True, metavar="NAME")
@option(*VALUE, required=True, metavar="TEXT")
def update_broker_config(namesrv: str, cluster: str | None, broker: str | None, key: str, value: str) -> None:
    """Change a setting of brokers while they run."""
    if any(sign in key + value for sign in "\r\n"):
        raise UsageError("mqadmin: a setting is one line")

    async def work(admin: Admin) -> None:
        for address in await addresses(admin, cluster, broker):
            answer = await ask(admin, address, UpdateBrokerConfig(body=f"{key}={value}\n".encode()))
            if answer.remark:
                raise ClientError(f"mqadmin: {address}: {answer.remark}")
            click.echo(f"update broker config success, {address}")

    run(namesrv, work)


@mqadmin.command("getNamesrvConfig")
@namesrv_flag
def get_namesrv_config(namesrv: str) -> None:
    """Show all settings of the nameservers."""

    async def work(admin: Admin) -> None:
        for address in admin.client.nameservers.addresses:
            _show_settings(address, (await ask(admin, address, GetNameserverConfig())).body)

    run(namesrv, work)


@mqadmin.command("getConsumerConfig")
@namesrv_flag
@group_flag
def get_consumer_config(namesrv: str, group: str) -> None:
    """Show how a consumer group is set up, on each broker that knows it."""

    async def work(admin: Admin) -> None:
        found = False
        clusters = (await admin.cluster_info()).broker_addr_table
        for name, address in (await admin.masters()).items():
            known: GroupConfigTable = (await ask(admin, address, GetAllGroups())).body
            config = known.subscription_group_table.get(group)
            if config is None:
                continue
            found = True
            click.echo(f"{f'{clusters[name].cluster}:{name}':=^80}")
            for key, text in _group_settings(config).items():
                click.echo(f"{key.ljust(GROUP_NAME_WIDTH)}=  {text}")
        if not found:
            raise ClientError(f"mqadmin: no broker knows group {group}: `staticfire groups` lists those there are")

    run(namesrv, work)


def _group_settings(config: SubscriptionGroupConfig) -> Mapping[str, object]:
    shown = {
        "groupName": config.group_name,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "consumeMessageOrderly": config.consume_message_orderly,
        "retryQueueNums": config.retry_queue_nums,
        "retryMaxTimes": config.retry_max_times,
        "brokerId": config.broker_id,
        "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
        "groupSysFlag": config.group_sys_flag,
        "consumeTimeoutMinute": config.consume_timeout_minute,
        "attributes": "{" + ", ".join(f"{name}={text}" for name, text in sorted(config.attributes.items())) + "}",
    }
    return {name: str(text).lower() if isinstance(text, bool) else text for name, text in shown.items()}


@mqadmin.command("updateKvConfig")
@namesrv_flag
@option("-s", "--namespace", required=True, metavar="NAMESPACE")
@option(*KEY, required=True, metavar="NAME")
@option(*VALUE, required=True, metavar="TEXT")
def update_kv_config(namesrv: str, namespace: str, key: str, value: str) -> None:
    """Store a value on all nameservers."""

    async def work(admin: Admin) -> None:
        await admin.put_kv(namespace, key, value)
        click.echo("create or update kv config to namespace success.")

    run(namesrv, work)


@mqadmin.command("deleteKvConfig")
@namesrv_flag
@option("-s", "--namespace", required=True, metavar="NAMESPACE")
@option(*KEY, required=True, metavar="NAME")
def delete_kv_config(namesrv: str, namespace: str, key: str) -> None:
    """Remove a value from all nameservers."""

    async def work(admin: Admin) -> None:
        await admin.delete_kv(namespace, key)
        click.echo("delete kv config from namespace success.")

    run(namesrv, work)


def _show_settings(address: str, body: bytes | None) -> None:
    click.echo(f"============{address}============")
    for line in (body or b"").decode().splitlines():
        name, _, text = line.partition("=")
        click.echo(f"{name.ljust(NAME_WIDTH)}=  {text}")

"""Brokers and their load over HTTP.

Behaviour
- GET /brokers returns each registered broker: its address, what it has stored and delivered since its start, how full
  its disk is, and why it can't be used, if so. A broker that doesn't respond is listed with that as its problem. If no
  nameserver responds, the known brokers are listed.
- Works with RocketMQ's brokers, too: the numbers are those of its runtime info.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from staticfire.client import Admin
from staticfire.control.routes import ControlCall, Reply, Route
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.requests.routes import MASTER_ID, BrokerData
from staticfire.protocol.requests.statistics import STORE_REFUSAL, GetRuntimeInfo

ASK_TIMEOUT_MS = 1_000
UNREGISTERED = "it isn't registered at the nameserver, so that clients don't find it"
NO_NAMESERVER = "it responds, but no nameserver does, so that clients don't find it"
DISK_RATIO, VERSION = "commitLogDiskRatio", "brokerVersionDesc"
STORED, DELIVERED = "msgPutTotalTodayNow", "msgGetTotalTodayNow"
BOOTED, BEHIND = "bootTimestamp", "dispatchBehindBytes"


async def show(call: ControlCall) -> Reply:
    """Return all brokers."""
    async with call.cluster.admin() as admin:
        view = call.cluster.view
        return Reply({"brokers": await list_brokers(admin, {**view.addresses, **view.replica_addresses})})


async def list_brokers(admin: Admin, known: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the registered brokers, and those of `known` (addresses by process) that aren't.

    Without a nameserver these are all known ones. Raises: NetworkError (no nameserver, and none is known).
    """
    try:
        table, unregistered = (await admin.cluster_info()).broker_addr_table, UNREGISTERED
    except NetworkError:
        # The brokers may still respond to clients that know their addresses.
        if not known:
            raise
        table, unregistered = {}, NO_NAMESERVER
    found = brokers_of(table, known)
    loads = await asyncio.gather(*(_load(admin, str(one["address"]), one["id"] != MASTER_ID) for one in found))
    return [_with_problem({**one, **load}, unregistered) for one, load in zip(found, loads, strict=True)]


def brokers_of(table: Mapping[str, BrokerData], known: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the brokers of a nameserver's table, and those of `known` that aren't in it."""
    found = [
        {"name": name, "id": broker_id, "cluster": data.cluster, "address": address, "registered": True}
        for name, data in table.items()
        for broker_id, address in data.broker_addrs.items()
    ]
    there = {one["address"] for one in found}
    found += [
        {**_place_of(process, known), "cluster": "", "address": address, "registered": False}
        for process, address in known.items()
        if address not in there
    ]
    return sorted(found, key=lambda one: (one["name"], one["id"], one["address"]))


def _place_of(process: str, known: Mapping[str, str]) -> dict[str, Any]:
    """Return the broker's name and id by the name of its process: `broker-a-1` is slave 1 of broker-a."""
    name, _, number = process.rpartition("-")
    if name in known and number.isascii() and number.isdecimal():
        return {"name": name, "id": int(number)}
    return {"name": process, "id": MASTER_ID}


async def _load(admin: Admin, address: str, is_slave: bool) -> dict[str, Any]:
    """Return what a broker reports about itself, or its problem."""
    try:
        answer = await admin.client.pool.ask(address, GetRuntimeInfo(), ASK_TIMEOUT_MS)
    except NetworkError as error:
        return {"problem": str(error)}
    if answer.code != SUCCESS or answer.body is None:
        return {"problem": answer.remark or "it reports nothing about itself"}
    # That a slave stores nothing of clients is no problem.
    return load_of({name: text for name, text in answer.body.table.items() if not (is_slave and name == STORE_REFUSAL)})


def load_of(table: Mapping[str, str]) -> dict[str, Any]:
    """Return the numbers of a runtime info. Missing and unreadable ones are 0."""
    return {
        "version": table.get(VERSION, ""),
        "startedMs": _whole(table.get(BOOTED, "")),
        "stored": _whole(table.get(STORED, "")),
        "delivered": _whole(table.get(DELIVERED, "")),
        "diskRatio": _ratio(table.get(DISK_RATIO, "")),
        "logBytes": max(0, _whole(table.get("commitLogMaxOffset", "")) - _whole(table.get("commitLogMinOffset", ""))),
        "dispatchBehindBytes": _whole(table.get(BEHIND, "")),
        "problem": f"it stores nothing: {table[STORE_REFUSAL]}" if STORE_REFUSAL in table else "",
    }


def _with_problem(broker: dict[str, Any], unregistered: str) -> dict[str, Any]:
    if not broker["registered"] and not broker["problem"]:
        broker["problem"] = unregistered
    return broker


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _ratio(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


ROUTES = (Route("GET", "/brokers", "all brokers: address, messages stored and delivered, disk, problems", show),)

"""Key-value configuration over connections, and on the disk."""

from dataclasses import replace

import pytest

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import StorageError, UsageError
from staticfire.protocol.requests.routes import DeleteKVConfig, GetKVConfig, GetKVList, PutKVConfig
from staticfire.simulation.world.world import SimulatedWorld
from tests.nameserver.conftest import Connect

KEPT = NameserverSettings(folder="/data/nameserver")


async def test_a_value_is_put_got_listed_and_deleted(connect: Connect, codec: int) -> None:
    client = connect(codec=codec)
    await client.ask(PutKVConfig(namespace="n", key="k", value="v"))
    assert (await client.ask(GetKVConfig(namespace="n", key="k"))).value == "v"
    assert (await client.ask(GetKVList(namespace="n"))).body.table == {"k": "v"}
    await client.ask(DeleteKVConfig(namespace="n", key="k"))
    assert (await client.ask(GetKVConfig(namespace="n", key="k"))).code == 22
    assert (await client.ask(DeleteKVConfig(namespace="n", key="k"))).code == 0


async def test_what_is_missing_is_reported_in_rocketmqs_words(connect: Connect) -> None:
    client = connect()
    header, _ = await client.raw(101, namespace="n", key="k")
    assert (header["code"], header["remark"]) == (22, "No config item, Namespace: n Key: k")
    header, _ = await client.raw(219, namespace="n")
    assert (header["code"], header["remark"]) == (22, "No config item, Namespace: n")
    header, _ = await client.raw(100, namespace="n", value="v")
    assert (header["code"], header["remark"]) == (1, "namespace or key is null")


async def test_an_emptied_namespace_is_empty_and_not_missing(connect: Connect) -> None:
    client = connect()
    assert (await client.raw(100, namespace="n", key="k"))[0]["code"] == 0
    assert (await client.raw(219, namespace="n"))[1] == b'{"table":{}}'


@pytest.mark.parametrize("settings", [KEPT])
async def test_values_outlive_a_power_loss(world: SimulatedWorld, connect: Connect) -> None:
    await connect().ask(PutKVConfig(namespace="n", key="k", value="v"))
    world.kill("nameserver", power_loss=True)
    await world.start("nameserver", Nameserver(world.machine("nameserver"), KEPT))
    answer = await connect().ask(GetKVConfig(namespace="n", key="k"))
    assert answer.value == "v"


async def test_without_a_folder_values_live_as_long_as_the_process(world: SimulatedWorld, connect: Connect) -> None:
    await connect().ask(PutKVConfig(namespace="n", key="k", value="v"))
    await world.stop("nameserver")
    await world.start("nameserver", Nameserver(world.machine("nameserver"), NameserverSettings()))
    assert (await connect().ask(GetKVConfig(namespace="n", key="k"))).code == 22


@pytest.mark.parametrize("settings", [KEPT])
async def test_what_cannot_be_saved_is_refused_and_did_not_happen(world: SimulatedWorld, connect: Connect) -> None:
    client = connect()
    await client.ask(PutKVConfig(namespace="n", key="k", value="old"))
    world.disk("nameserver").bytes_left = 0
    answer = await client.ask(PutKVConfig(namespace="n", key="k", value="new"))
    assert answer.code == 1
    assert (answer.remark or "").startswith("kvConfig.json can't be saved, so nothing was changed: ")
    assert (await client.ask(GetKVConfig(namespace="n", key="k"))).value == "old"


@pytest.mark.parametrize("settings", [KEPT])
async def test_a_folder_has_one_nameserver(world: SimulatedWorld, nameserver: Nameserver) -> None:
    neighbour = world.machine("neighbour", disk_of="nameserver")
    with pytest.raises(UsageError, match="/data/nameserver is in use by another process"):
        await world.start("neighbour", Nameserver(neighbour, replace(KEPT, listen_port=0)))


async def test_a_broken_file_ends_the_start_in_words(world: SimulatedWorld) -> None:
    machine = world.machine("nameserver")
    machine.files.make_folder("/data/nameserver")
    machine.files.replace("/data/nameserver/kvConfig.json", b'{"configTable":')
    with pytest.raises(StorageError, match=r"kvConfig.json can't be read: .*; repair it, or move it away"):
        await world.start("nameserver", Nameserver(machine, KEPT))


async def test_a_flipped_bit_of_the_file_is_named(world: SimulatedWorld) -> None:
    machine, disk = world.machine("kept", "10.0.0.5"), world.disk("kept")
    nameserver = await world.start("kept", Nameserver(machine, KEPT))
    nameserver.state.keep(nameserver.state.kv.with_value("n", "k", "12345"))
    await world.stop("kept")
    path = "/data/nameserver/kvConfig.json"
    for bit in range(0, 8 * disk.files[path].size, 3):
        disk.rot(path, bit // 8, 1 << bit % 8)
        with pytest.raises(StorageError, match=r"/data/nameserver/kvConfig\.json can't be read: .*move it away"):
            await world.start("kept", Nameserver(machine, KEPT))
        disk.rot(path, bit // 8, 1 << bit % 8)
    nameserver = await world.start("kept", Nameserver(machine, KEPT))
    assert nameserver.state.kv.get("n", "k") == "12345"

"""The same seed gives the same history, whatever Python's hash seed is."""

import asyncio
import os
import subprocess
import sys
import zlib

from staticfire.runtime.machine import Machine
from staticfire.simulation.world import LinkQuality, SimulatedWorld, simulate
from tests.faults.recorder import connect, listen
from tests.house.source import ROOT

CLIENTS = 8


async def storm(world: SimulatedWorld) -> str:
    """Clients that write, a server that echoes and logs; kills, freezes, partitions and losses of power by chance."""
    server = world.machine("server", host="10.0.0.1")
    doorman = await listen(server, "0.0.0.0", 9876)
    log = server.files.open("/log")

    async def talk(machine: Machine) -> None:
        for _ in range(10):
            try:
                recorder = await connect(machine, "server", 9876, timeout_ms=500)
            except OSError:
                await asyncio.sleep(machine.identity.random.random())  # house: virtual time
                continue
            recorder.transport.write(machine.identity.random.randbytes(2_000))
            await asyncio.sleep(machine.identity.random.random())  # house: virtual time
            recorder.transport.close()

    async def serve() -> None:
        for _ in range(40):
            await asyncio.sleep(0.1)  # house: virtual time
            for guest in doorman.guests:
                if guest.pieces:
                    guest.transport.write(guest.pieces.pop())
            log.write(log.size(), b"x" * len(doorman.guests))
            await server.workers.run(log.sync)

    async with asyncio.TaskGroup() as group:
        group.create_task(serve())
        for number in range(CLIENTS):
            group.create_task(talk(world.machine(f"client-{number}", host=f"10.0.1.{number}")))
        for _ in range(10):
            await world.run_for(ms=300)
            name = f"client-{world.random.randrange(CLIENTS)}"
            world.partition(name, "server")
            await world.run_for(ms=world.random.random() * 1_000)
            world.heal(name)
    for guest in doorman.guests:
        guest.transport.close()
    await doorman.listener.close()
    return f"{world.history.count} events, {world.history.fingerprint}, {world.uptime_ms} ms"


def run(seed: int) -> str:
    return simulate(storm, seed, LinkQuality(jitter_ms=5, fragments=True))


def test_a_seed_repeats_itself_under_any_hash_seed() -> None:
    program = "from tests.faults.test_determinism import run; print(run(7))"
    results = {run(7)}
    for hash_seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        printed = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert printed.returncode == 0, printed.stderr
        results.add(printed.stdout.strip())
    assert len(results) == 1


def test_seeds_differ() -> None:
    assert len({run(seed) for seed in range(5)}) == 5


def test_the_history_can_be_read() -> None:
    async def scenario(world: SimulatedWorld) -> str:
        world.machine("a").files.replace("/state", b"{}")
        await world.run_for(seconds=1.5)
        world.kill("a", power_loss=True)
        return world.history.last()

    checksum = f"{zlib.crc32(b'{}'):08x}"
    assert simulate(scenario) == f"0.000000 a replaces /state 2 {checksum}\n1.500000 a is killed without power"

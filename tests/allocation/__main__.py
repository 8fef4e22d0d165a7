"""Writes cases.jsonl: questions made from a seed, answered by RocketMQ's classes. Needs a JDK and Maven.

With `--check` it writes nothing, and fails if they answer anything else now.
"""

import subprocess
import sys
import tempfile
from dataclasses import replace
from random import Random

from tests.allocation.cases import Case, read_cases, write_cases
from tests.allocation.jars import java_command

SEED = 5_3_3
CASES_PER_KIND = 80
QUEUES_MAX = 24
MEMBERS_MAX = 9
ROOMS = ("east", "west", "north", "süd")


def main() -> None:
    random = Random(SEED)
    cases = [make(random) for make in KINDS for _ in range(CASES_PER_KIND)]
    answered = [replace(case, owned=shares) for case, shares in zip(cases, ask(cases), strict=True)]
    if "--check" in sys.argv:
        if answered != read_cases():
            raise SystemExit("tests.allocation: RocketMQ's classes answer something else than cases.jsonl says")
    else:
        write_cases(answered)
    print(f"{len(answered)} cases", file=sys.stderr)


def ask(cases: list[Case]) -> list[list[list[int]]]:
    """Return what RocketMQ's classes say. Raises: CalledProcessError, ValueError (one of them threw)."""
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(
            java_command("Allocate", folder),
            input="\n".join(case.question() for case in cases),
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
    return [[[int(place) for place in share.split()] for share in line.split(",")] for line in said.stdout.splitlines()]


def member(random: Random) -> str:
    """Return a client id as clients of RocketMQ make them."""
    instance = random.choice(["DEFAULT", f"{random.randrange(40_000)}#{random.getrandbits(50)}", "büro", "7"])
    unit = random.choice(["", "", "@unit"])
    return f"10.0.{random.randrange(4)}.{random.randrange(256)}@{instance}{unit}"


def members(random: Random) -> list[str]:
    return sorted({member(random) for _ in range(random.randint(1, MEMBERS_MAX))})


def brokers(random: Random, names: list[str]) -> list[tuple[str, int]]:
    return [(name, random.randint(1, max(1, QUEUES_MAX // len(names)))) for name in names]


def plain_brokers(random: Random) -> list[tuple[str, int]]:
    return brokers(random, [f"broker-{'abcde'[number]}" for number in range(random.randint(1, 5))])


def topic(random: Random) -> str:
    return random.choice(["orders", "%RETRY%billing", "a", "Orders_2-x"])


def averagely(random: Random) -> Case:
    return Case("AVG", "", topic(random), plain_brokers(random), members(random))


def by_circle(random: Random) -> Case:
    return Case("AVG_BY_CIRCLE", "", topic(random), plain_brokers(random), members(random))


def consistent_hash(random: Random) -> Case:
    return Case("CONSISTENT_HASH", "10", topic(random), plain_brokers(random), members(random))


def consistent_hash_with_other_numbers(random: Random) -> Case:
    nodes = random.choice(["1", "2", "50"])
    return Case("CONSISTENT_HASH", nodes, topic(random), plain_brokers(random), members(random))


def by_config(random: Random) -> Case:
    some = plain_brokers(random)
    count = sum(number for _, number in some)
    own = sorted(random.sample(range(count), random.randint(1, count)))
    return Case("CONFIG", ",".join(map(str, own)), "orders", some, members(random))


def machine_room(random: Random) -> Case:
    names = {f"{random.choice(ROOMS)}@broker-{random.choice('abc')}" for _ in range(random.randint(1, 4))}
    odd = random.choice([[], ["broker-x"], ["@broker-x"], ["east@"], ["east@b@"], ["east@b@c"], ["a@@b", "@@"]])
    rooms = random.sample([*ROOMS, "nowhere"], random.randint(1, 3))
    return Case(
        "MACHINE_ROOM", ",".join(rooms), topic(random), brokers(random, sorted({*names, *odd})), members(random)
    )


def nearby(random: Random) -> Case:
    names = sorted({f"{random.choice(ROOMS)}-broker-{random.choice('abc')}" for _ in range(random.randint(1, 5))})
    those = sorted({f"{random.choice(ROOMS)}-{member(random)}" for _ in range(random.randint(1, MEMBERS_MAX))})
    return Case("MACHINE_ROOM_NEARBY", "AVG", topic(random), brokers(random, names), those)


def nearby_with_others_inside(random: Random) -> Case:
    return replace(nearby(random), option=random.choice(["AVG_BY_CIRCLE", "CONSISTENT_HASH"]))


KINDS = (
    averagely,
    by_circle,
    consistent_hash,
    consistent_hash_with_other_numbers,
    by_config,
    machine_room,
    nearby,
    nearby_with_others_inside,
)

if __name__ == "__main__":
    main()

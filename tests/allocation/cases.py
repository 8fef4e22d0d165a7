"""One question to a strategy, and what RocketMQ's class answered to each member."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from staticfire.client import MessageQueue

FILE = Path(__file__).parent / "cases.jsonl"


@dataclass(frozen=True)
class Case:
    """`queues`: how many each broker has. `owned`: for each member the places of its queues among all, in order."""

    strategy: str
    option: str
    topic: str
    brokers: list[tuple[str, int]]
    members: list[str]
    owned: list[list[int]] = field(default_factory=list)

    @property
    def queues(self) -> list[MessageQueue]:
        return sorted(MessageQueue(self.topic, name, number) for name, count in self.brokers for number in range(count))

    def question(self) -> str:
        """Return the line that Allocate.java reads."""
        queues = ",".join(f"{queue.broker_name} {queue.queue_id}" for queue in self.queues)
        return "\t".join([self.strategy, self.option, self.topic, queues, ",".join(self.members)])


def read_cases() -> list[Case]:
    return [_read(json.loads(line)) for line in FILE.read_text().splitlines()]


def _read(fields: dict[str, Any]) -> Case:
    return Case(**fields | {"brokers": [(name, count) for name, count in fields["brokers"]]})


def write_cases(cases: list[Case]) -> None:
    lines = [json.dumps(asdict(case), separators=(",", ":")) for case in cases]
    FILE.write_text("\n".join(lines) + "\n")

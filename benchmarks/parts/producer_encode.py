"""What a gathered send costs the client: real producer, route cache and connection, without sockets.

    python -m benchmarks.parts.producer_encode [--senders 64] [--body 1024] [--messages 200000] [--profile]

Two peers without a socket answer at once, with frames prepared before. What is printed is microseconds of this
process per message: the `Message` made, sent, awaited, its result looked at; and the same with `post` and `send_many`.
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import time
from collections.abc import Callable
from struct import Struct
from typing import Any, cast

from staticfire.client import ClientSettings, Message, Producer, ProducerSettings
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.routes import BrokerData, QueueData, RouteAnswer, TopicRouteData
from staticfire.protocol.requests.send import ManyResult, SendManyAnswer
from staticfire.runtime.live import live_machine

NAMESRV, BROKER = "127.0.0.1:9876", "127.0.0.1:10911"
ROUTE = TopicRouteData(
    queue_datas=[QueueData("broker-a", 4, 4, 6)], broker_datas=[BrokerData("c", "broker-a", {0: BROKER})]
)
_HEAD = Struct(">II").unpack_from
_OPAQUE_AT = 15
_u32 = Struct(">I")
_u16 = Struct(">H")


class AnsweringTransport(asyncio.Transport):
    """A peer without a socket. It responds to what is written in the next iteration of the event loop."""

    def __init__(self, port: int, answers: Callable[[bytes], list[bytes]]) -> None:
        super().__init__({"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", 50000)})
        self.protocol: Any = None
        self._answers = answers
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self.spent_s = 0.0
        """The CPU time for responses, which isn't the client's."""

    def write(self, data: Any) -> None:
        started = time.process_time()
        self._loop.call_soon(self.protocol.data_received, b"".join(self._answers(data)))
        self.spent_s += time.process_time() - started

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self.protocol.connection_lost, None)

    abort = close


def frames_in(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return the opaque, code and body of each frame."""
    frames = []
    at = 0
    while at < len(data):
        length, word = _HEAD(data, at)
        code, opaque = _u32.unpack_from(data, at + 10)[0], _u32.unpack_from(data, at + _OPAQUE_AT)[0]
        frames.append((opaque, code, data[at + 8 + (word & 0xFFFFFF) : at + 4 + length]))
        at += 4 + length
    return frames


_many: dict[int, bytes] = {}


def answer_many(data: bytes) -> list[bytes]:
    """Respond to SEND_MANY requests with success. The frame for each count is prepared once; only opaque changes."""
    answers = []
    for opaque, code, body in frames_in(data):
        count = 0 if code != 9001 else body[0] & 0xF if body[0] < 0xA0 else _u16.unpack_from(body, 1)[0]
        if count not in _many:
            results = [ManyResult(0, 1, 1_000_000 + index, 1_000_000_000 + index) for index in range(count)]
            answer: Answer = SendManyAnswer(body=results) if count else Answer()
            _many[count] = codec_for(NATIVE).encode_answer(answer, 0, b"")
        frame = _many[count]
        answers.append(frame[:_OPAQUE_AT] + _u32.pack(opaque) + frame[_OPAQUE_AT + 4 :])
    return answers


def answer_route(data: bytes) -> list[bytes]:
    answer = RouteAnswer(body=ROUTE)
    return [codec_for(NATIVE).encode_answer(answer, opaque) for opaque, _, _ in frames_in(data)]


class NullNetwork:
    """Connects to peers without sockets."""

    def __init__(self) -> None:
        self.transports: list[AnsweringTransport] = []

    async def listen(self, *_: Any, **__: Any) -> Any:
        raise OSError("nobody listens here")

    async def connect(self, factory: Callable[[], asyncio.Protocol], _: str, port: int, __: int) -> asyncio.Transport:
        transport = AnsweringTransport(port, answer_route if port == 9876 else answer_many)
        transport.protocol = factory()
        transport.protocol.connection_made(transport)
        self.transports.append(transport)
        return transport


async def with_send(producer: Producer, arguments: argparse.Namespace) -> None:
    """Run several tasks that each send one message after another."""
    body, count = bytes(arguments.body), arguments.messages // arguments.senders

    async def one(number: int) -> None:
        for index in range(count):
            result = await producer.send(Message("orders", body, tags="paid", keys=f"{number}-{index}"))
            assert result.queue_offset

    await asyncio.gather(*[one(number) for number in range(arguments.senders)])


async def with_post(producer: Producer, arguments: argparse.Namespace) -> None:
    """Run one task that posts several messages, then awaits them."""
    body = bytes(arguments.body)
    for start in range(0, arguments.messages, arguments.senders):
        futures: list[asyncio.Future[SendResult]] = [
            producer.post(Message("orders", body, tags="paid", keys=f"{index}"))
            for index in range(start, start + arguments.senders)
        ]
        for future in futures:
            assert (await future).queue_offset


async def with_send_many(producer: Producer, arguments: argparse.Namespace) -> None:
    body = bytes(arguments.body)
    for start in range(0, arguments.messages, 1000):
        messages = (Message("orders", body, tags="paid", keys=f"{index}") for index in range(start, start + 1000))
        await producer.send_many(messages)


def messages_alone(arguments: argparse.Namespace) -> float:
    """Return the cost of creating the messages, which is the program's own part."""
    body = bytes(arguments.body)
    started = time.process_time()
    for index in range(arguments.messages):
        Message("orders", body, tags="paid", keys=f"0-{index}")
    return (time.process_time() - started) * 1e6 / int(arguments.messages)


async def main(arguments: argparse.Namespace) -> None:
    network = NullNetwork()
    machine = live_machine()._replace(network=cast(Any, network))
    settings = ProducerSettings(client=ClientSettings(protocol=arguments.protocol))
    print(f"making the message       {messages_alone(arguments):6.2f} us")
    async with Producer("bench", NAMESRV, settings, machine) as producer:
        await producer.send(Message("orders", b"first"))
        for way in (with_send, with_post, with_send_many):
            if arguments.only and way.__name__ not in arguments.only.split(","):
                continue
            best = min([await measured(way, producer, arguments, network) for _ in range(arguments.rounds)])
            print(f"{way.__name__:<24} {best:6.2f} us per message")
    await machine.workers.close()


async def measured(way: Any, producer: Producer, arguments: argparse.Namespace, network: NullNetwork) -> float:
    gc.collect()
    profile = cProfile.Profile() if arguments.profile else None
    before = sum(transport.spent_s for transport in network.transports)
    started = time.process_time()
    if profile is not None:
        profile.enable()
    await way(producer, arguments)
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    spent = time.process_time() - started
    spent -= sum(transport.spent_s for transport in network.transports) - before
    return spent * 1e6 / int(arguments.messages)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--senders", type=int, default=64)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--messages", type=int, default=64_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--protocol", choices=["staticfire"], default="staticfire")
    parser.add_argument("--only", default="", help="with_send,with_post,with_send_many")
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parse()))

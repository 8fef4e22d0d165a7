"""`python -m tests.h2spec H2SPEC`: runs that program and fails when it finds something that isn't explained below."""

import asyncio
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from unittest import mock

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport import grpc_connection
from staticfire.proxy.transport.call_events import CallData, CallOpened, CallReset, Event
from staticfire.proxy.transport.endpoint import GrpcEndpoint
from staticfire.proxy.transport.http2 import BEGINNING, Http2
from staticfire.proxy.transport.outflow import H2Stream
from staticfire.runtime.live import live_machine
from tests.proxy.h2_client import EchoService

TIMEOUT_S = 240
CASES_MIN = 140
# h2spec 2.2.1 has 146. Fewer mean that it didn't run as it should.
_IGNORED = "content-length has no effect: in a call of gRPC each message has its own length"
EXPLAINED = {
    'http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the DATA frame'
    " payload length": _IGNORED,
    'http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the sum of the'
    " multiple DATA frames payload length": _IGNORED,
}
"""What may fail, by the case's words, with the reason; docs/grpc-limits.md has the same list."""


class PatientHttp2(Http2):
    """Reports a request when it is complete.

    h2spec sends no request of gRPC. The endpoint rejects those after their header fields, and h2spec writes each frame
    by itself: whether its next frame finds the stream open would depend on which of the two is faster.
    """

    _opened: dict[H2Stream, CallOpened]

    def receive(self, data: bytes, uptime_ms: UptimeMs = BEGINNING) -> list[Event]:
        if not hasattr(self, "_opened"):
            self._opened = {}
        return [found for event in super().receive(data, uptime_ms) if (found := self._complete(event)) is not None]

    def _complete(self, event: Event) -> Event | None:
        if isinstance(event, CallOpened):
            if event.ended:
                return event
            self._opened[event.stream] = event
        elif isinstance(event, CallReset) or event.ended:
            opened = self._opened.pop(event.stream, None)
            if opened is not None and isinstance(event, CallData):
                return opened._replace(ended=True)
        return None


class SpecCase:
    """One case of h2spec's report: `outcome` is "passed", "skipped", or what failed."""

    def __init__(self, element: ET.Element) -> None:
        self.words = f"{element.get('package')}: {element.get('classname')}"
        failed = element.find("failure")
        failed = element.find("error") if failed is None else failed
        self.is_skipped = element.find("skipped") is not None
        self.failure = None if failed is None else " ".join((failed.text or "failed").split())


async def played(program: str, report: Path) -> list[SpecCase]:
    """Return the cases, tried at an endpoint of this process."""
    endpoint = GrpcEndpoint(live_machine(), EchoService().methods)
    port = await endpoint.listen("127.0.0.1", 0)
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--strict",
            "--port",
            str(port),
            "--max-header-length",
            "27000",
            "--junit-report",
            str(report),
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            await asyncio.wait_for(process.wait(), TIMEOUT_S)
        except TimeoutError:
            process.kill()
            raise SystemExit(f"test-http2: h2spec hasn't ended after {TIMEOUT_S} s") from None
    finally:
        await endpoint.close()
    return [SpecCase(element) for element in ET.parse(report).iter("testcase")]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(grpc_connection, "Http2", PatientHttp2):
        cases = asyncio.run(played(sys.argv[1], Path(folder, "report.xml")))
    failed = [case for case in cases if case.failure is not None]
    skipped = sum(case.is_skipped for case in cases)
    print(f"test-http2: h2spec: {len(cases)} cases, {len(failed)} failed, {skipped} skipped")
    unexplained = [case for case in failed if case.words not in EXPLAINED]
    for case in unexplained:
        print(f"test-http2: failed: {case.words}: {case.failure}", file=sys.stderr)
    outdated = sorted(EXPLAINED.keys() - {case.words for case in failed})
    for words in outdated:
        print(f"test-http2: explained, and doesn't fail: {words}", file=sys.stderr)
    if len(cases) < CASES_MIN:
        print(f"test-http2: only {len(cases)} cases ran, fewer than {CASES_MIN}", file=sys.stderr)
    return 1 if unexplained or outdated or len(cases) < CASES_MIN else 0


if __name__ == "__main__":
    sys.exit(main())

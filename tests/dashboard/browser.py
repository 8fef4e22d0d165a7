"""A real Chromium, headless and without a network, controlled through its own protocol (DevTools)."""

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from aiohttp import ClientSession, ClientWebSocketResponse

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--mute-audio",
    "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--remote-debugging-port=0", "--force-color-profile=srgb", "--lang=en-GB", "--hide-scrollbars",
)  # fmt: skip
TIMEOUT_S = 30
T = TypeVar("T")
LOADED = "document.readyState === 'complete'"


class Tab:
    """One page of the browser."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []
        """What the page has written to the console as a warning or an error, and exceptions in its scripts."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            reported = json.loads(message.data)
            if "id" in reported:
                self._answers.pop(reported["id"]).set_result(reported)
            elif reported["method"] == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(reported["params"]["exceptionDetails"])[:500])
            elif reported["method"] == "Log.entryAdded":
                self.complaints.append(reported["params"]["entry"]["text"])
            elif reported["method"] == "Runtime.consoleAPICalled" and reported["params"]["type"] in (
                "error",
                "warning",
            ):
                self.complaints.append(json.dumps(reported["params"]["args"])[:500])

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(TIMEOUT_S):
            reported = await answer
        assert "error" not in reported, f"{method}: {reported['error']}"
        return reported["result"]

    async def run(self, script: str) -> Any:
        """Return the value of an expression in the page; if it is a promise, of its result."""
        reported = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reported, json.dumps(reported["exceptionDetails"])[:1000]
        return reported["result"].get("value")

    async def open(self, url: str) -> None:
        """Open an address, and wait until the page is complete."""
        self.complaints.clear()
        await self.call("Page.navigate", url=url)
        await self.wait(f"location.href === {json.dumps(url)} && {LOADED}")

    async def wait(self, condition: str) -> None:
        """Wait until an expression is true, in the page. It is looked at with each frame."""
        script = f"""new Promise((done) => {{
          const look = () => {{ try {{ if ({condition}) return done(true) }} catch {{}} setTimeout(look, 20) }};
          look();
        }})"""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    await self.run(script)
                    return
                except AssertionError as gone:
                    # The page was left meanwhile: look at the next one.
                    if "navigat" not in str(gone) and "context" not in str(gone):
                        raise

    async def text(self, selector: str = "main") -> str:
        """Return the text of an element as it is seen."""
        return str(await self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def resize(self, width: int, height: int = 900, theme: str = "light") -> None:
        """Show the page at a size, in the colours of a theme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def press(self, key: str, code: int) -> None:
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    async def picture(self) -> bytes:
        """Return a picture of the page, as PNG."""
        shown = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shown["data"])

    async def close(self) -> None:
        """Stop listening to it."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """Start a Chromium, with its profile in a folder, and open one page."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program is not None, f"none of {', '.join(BROWSERS)} is installed; `make test-report` does that"
    profile = folder / "profile"
    process = await asyncio.create_subprocess_exec(
        program, *QUIET, f"--user-data-dir={profile}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        port = await _port_of(process)
        async with ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in await answer.json(content_type=None) if one["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await tab.call(f"{domain}.enable")
                try:
                    yield tab
                finally:
                    await tab.close()
    finally:
        process.terminate()
        await process.communicate()


async def _port_of(process: asyncio.subprocess.Process) -> int:
    """Return the port that the browser reports when it listens."""
    assert process.stderr is not None
    async with asyncio.timeout(TIMEOUT_S):
        async for line in process.stderr:
            if b"DevTools listening on ws://127.0.0.1:" in line:
                return int(line.split(b"127.0.0.1:")[1].split(b"/")[0])
    raise AssertionError("Chromium ended before it listened")


class Browser:
    """A browser with one page, for tests without an event loop: the page's messages are read during calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._tab = self._do(self._stack.enter_async_context(browser(self._folder)))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._do(self._stack.aclose())
        finally:
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    @property
    def complaints(self) -> list[str]:
        """What the page has complained of since it was opened."""
        return self._tab.complaints

    def open(self, url: str) -> None:
        self._do(self._tab.open(url))

    def run(self, script: str) -> Any:
        return self._do(self._tab.run(script))

    def wait(self, condition: str) -> None:
        self._do(self._tab.wait(condition))

    def text(self, selector: str = "main") -> str:
        return self._do(self._tab.text(selector))

    def resize(self, width: int, height: int = 900, theme: str = "light") -> None:
        self._do(self._tab.resize(width, height, theme))

    def press(self, key: str, code: int) -> None:
        self._do(self._tab.press(key, code))

    def picture(self) -> bytes:
        return self._do(self._tab.picture())

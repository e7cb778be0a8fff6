"""A sandbox outside of an event loop of one's own: in a thread for tests, in the foreground for the command.

A test that blocks its loop, or kills what it tests, must not stop the cluster that it is tested against.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from zone9.sandbox.sandbox import Sandbox

Answer = TypeVar("Answer")
PATIENCE = 30.0


class SandboxThread:
    """Runs a sandbox on a loop in a thread of its own; other attributes are the sandbox's."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sandbox", daemon=True)
        self.sandbox: Sandbox

    def start(self) -> Self:
        self._thread.start()
        self.sandbox = self.call(self._open())
        return self

    def stop(self) -> None:
        self.call(self.sandbox.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Runs a coroutine in the sandbox's loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def do(self, work: Callable[[], Answer]) -> Answer:
        """Runs a plain function in the sandbox's loop and waits for it."""

        async def done() -> Answer:
            return work()

        return self.call(done())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __getattr__(self, name: str) -> Any:
        if name == "sandbox":
            raise AttributeError(name)
        return getattr(self.sandbox, name)

    async def _open(self) -> Sandbox:
        return await Sandbox(**self._options).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())


async def serve(
    *,
    ready: Callable[[Sandbox], None] | None = None,
    furnish: Callable[[Sandbox], None] | None = None,
    **options: Any,
) -> None:
    """Serves until SIGINT or SIGTERM. `ready` is called with the sandbox when it listens; nothing is printed."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with Sandbox(**options) as sandbox:
        if furnish:
            furnish(sandbox)
        if ready:
            ready(sandbox)
        await ended.wait()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)

"""A process that never outlives the sandbox, and what it said last.

The kernel kills it when the thread that started it ends (`setpriv --pdeathsig`), so that even a sandbox that was
killed with -9 leaves nothing running. It has its own session: a Ctrl-C in the terminal is the sandbox's affair.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

CHUNK = 16384
UNREAD = 65536  # bytes of input that wait for a process that does not read


class Tail:
    """Keeps the last `limit` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.total = 0
        self._grew = asyncio.Event()

    def add(self, data: bytes) -> None:
        self._data += data
        self.total += len(data)
        if len(self._data) > self._limit:
            del self._data[: len(self._data) - self._limit]
        self._grew.set()

    async def until(self, text: bytes) -> None:
        """Returns when `text` is in what is kept; one waiter at a time."""
        while text not in self._data:
            self._grew.clear()
            await self._grew.wait()

    def __bytes__(self) -> bytes:
        return bytes(self._data)


class Child:
    """Is one started process; make it with `Child.start` and always `kill` it or wait until it is `gone`."""

    def __init__(self, process: asyncio.subprocess.Process, output_limit: int) -> None:
        self._process = process
        self.output, self.errors = Tail(output_limit), Tail(8192)
        self.gone: asyncio.Task[int] = asyncio.create_task(self._watch())

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        directory: Path,
        *,
        descriptors: Sequence[int] = (),
        output_limit: int = 8192,
        listens: bool = False,
    ) -> "Child":
        """Starts `argv` in `directory` with the open `descriptors`; raises OSError when it cannot.

        Only one that `listens` gets what is `say`-d to it.
        """
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", "--"),
            *argv,
            stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            pass_fds=descriptors,
            start_new_session=True,
        )
        return cls(process, output_limit)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self.gone.done()

    @property
    def said(self) -> str:
        """Is the last line of its error output, for whoever has to explain its end."""
        lines = bytes(self.errors).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def say(self, data: bytes) -> None:
        """Writes to its input; what it does not read in time is lost, as on a serial line."""
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing() or stdin.transport.get_write_buffer_size() > UNREAD:
            return
        stdin.write(data)

    async def kill(self) -> None:
        """Ends it at once, and returns when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.shield(self.gone)

    async def _watch(self) -> int:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        await asyncio.gather(
            _drain(self._process.stdout, self.output), _drain(self._process.stderr, self.errors)
        )
        return await self._process.wait()


async def _drain(stream: asyncio.StreamReader, tail: Tail) -> None:
    while data := await stream.read(CHUNK):
        tail.add(data)

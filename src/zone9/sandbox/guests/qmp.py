"""A client of QMP, the control protocol of QEMU, over a socket that only the two of them have.

The socket is one end of a pair made before QEMU was started, so there is no path to wait for, and nobody else
who could connect. Events are not needed here and are skipped. Source: QEMU's docs/interop/qmp-spec.txt.
"""

import asyncio
import json
import socket
from typing import Any

LONGEST_LINE = 4 * 1024 * 1024


class QmpError(Exception):
    """Says what QEMU answered instead of a result, or that it is gone."""


class Qmp:
    """Is one connection; make it with `Qmp.open` and `close` it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, ours: socket.socket, *, timeout: float = 30) -> "Qmp":  # noqa: ASYNC109
        """Greets QEMU; raises QmpError when it does not greet back. Takes `ours` over in either case."""
        reader, writer = await asyncio.open_connection(sock=ours, limit=LONGEST_LINE)
        qmp = cls(reader, writer)
        try:
            await qmp.execute("qmp_capabilities", timeout=timeout)
        except BaseException:
            await qmp.close()
            raise
        return qmp

    async def execute(
        self,
        command: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float = 10,  # noqa: ASYNC109
    ) -> Any:
        """Answers what `command` returned; raises QmpError when it failed or was not answered in time."""
        self._next += 1
        number = self._next
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        message = {"execute": command, "arguments": arguments or {}, "id": number}
        try:
            if self._reading.done():
                raise QmpError("QEMU is gone")
            self._writer.write(json.dumps(message).encode() + b"\n")
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError as error:
            raise QmpError(f"QEMU did not answer {command} within {timeout:g} s") from error
        finally:
            self._waiting.pop(number, None)

    async def human(self, line: str) -> str:
        """Answers the text of a command of the human monitor, for what QMP has no command for."""
        return str(await self.execute("human-monitor-command", {"command-line": line}))

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:  # The other end was killed in the middle of a line.
            return

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                message = json.loads(line)
                waiting = self._waiting.pop(message.get("id"), None)
                if waiting is None or waiting.done():
                    continue
                if "error" in message:
                    waiting.set_exception(QmpError(message["error"]["desc"]))
                else:
                    waiting.set_result(message["return"])
        except (OSError, ValueError):
            pass
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(QmpError("QEMU is gone"))

"""Guests without machines, for a sandbox on a host without QEMU and for tests of the API alone.

A guest here is a row in a dict. It has no process and no page, and so proves nothing about boot; its serial console
only echoes, as the line of a guest does that runs no shell on it.
"""

import asyncio
from collections.abc import Callable

from zone9.sandbox.guests.child import Tail
from zone9.sandbox.guests.seam import GuestSpec, StartFailed

LINE_KEPT = 8192


def _nobody(vmid: int) -> None:
    """Is what `on_exit` is until somebody listens."""


class RowGuests:
    """Is `Guests` by note only: starts at once, obeys its power button unless the spec ignores it."""

    needs_files = False

    def __init__(self, on_exit: Callable[[int], None] = _nobody) -> None:
        self.on_exit = on_exit
        self._rows: dict[int, GuestSpec] = {}
        self._lines: dict[int, Tail] = {}

    async def start(self, spec: GuestSpec) -> None:
        if spec.vmid in self._rows:
            raise StartFailed(f"VM {spec.vmid} already running")
        self._rows[spec.vmid] = spec
        self._lines.pop(spec.vmid, None)

    async def stop(self, vmid: int) -> None:
        self._rows.pop(vmid, None)

    async def shutdown(self, vmid: int, timeout: float) -> bool:  # noqa: ASYNC109 - Proxmox's own parameter
        spec = self._rows.get(vmid)
        if spec is not None and spec.ignores_acpi:
            await asyncio.sleep(timeout)
            return vmid not in self._rows
        self._rows.pop(vmid, None)
        return True

    async def reset(self, vmid: int) -> None:
        """Does nothing: there is nothing to reset."""

    async def pause(self, vmid: int) -> None:
        """Does nothing: whoever asked keeps the state."""

    async def resume(self, vmid: int) -> None:
        """Does nothing: whoever asked keeps the state."""

    async def grow(self, vmid: int, slot: str, size: int) -> None:
        """Does nothing: whoever asked keeps the size."""

    def running(self, vmid: int) -> bool:
        return vmid in self._rows

    def pid(self, vmid: int) -> int | None:
        return None

    def page_url(self, vmid: int) -> str | None:
        return None

    def console(self, vmid: int) -> bytes:
        return bytes(self._lines[vmid]) if vmid in self._lines else b""

    def console_end(self, vmid: int) -> int:
        return self._lines[vmid].total if vmid in self._lines else 0

    def type_in(self, vmid: int, data: bytes) -> None:
        if vmid in self._rows:
            echo = data.replace(b"\r", b"\n").replace(b"\n", b"\r\n")
            self._lines.setdefault(vmid, Tail(LINE_KEPT)).add(echo)

    def die(self, vmid: int) -> None:
        """Ends a guest as a crash would, so that `on_exit` can be tried."""
        if self._rows.pop(vmid, None) is not None:
            self.on_exit(vmid)

    async def close(self) -> None:
        self._rows.clear()

"""Chooses between KVM and emulation by trying, because the presence of /dev/kvm proves nothing.

On hosts whose KVM cannot run an ordinary kernel (a pagetable VM inside another VM), the device opens and a VM can
be made, and then the kernel never reaches its first program. So KVM is used only where the CPU has the flag, the
device opens for reading and writing, and the tiny guest was up within five seconds.
"""

import asyncio
import os
import re
import socket
from pathlib import Path

from zone9.sandbox.guests import command
from zone9.sandbox.guests.child import Child
from zone9.sandbox.guests.seam import GuestSpec, Smbios
from zone9.sandbox.guests.tiny import Tiny

CPUINFO, DEVICE = Path("/proc/cpuinfo"), Path("/dev/kvm")
PROBE_SECONDS = 5.0
UP = b"zone9-guest: up "


def kvm_plausible(cpuinfo: Path = CPUINFO, device: Path = DEVICE) -> bool:
    """Tells whether a probe is worth its five seconds."""
    flagged = re.search(r"^flags\s*:.*\b(vmx|svm)\b", cpuinfo.read_text(), re.MULTILINE)
    return flagged is not None and os.access(device, os.R_OK | os.W_OK)


async def choose(tiny: Tiny, directory: Path) -> tuple[str, ...]:
    """Answers QEMU's options for the fastest way to run a guest that works here."""
    if not kvm_plausible():
        return command.TCG
    return command.KVM if await boots(tiny, directory, command.KVM) else command.TCG


async def boots(
    tiny: Tiny, directory: Path, accelerator: tuple[str, ...], seconds: float = PROBE_SECONDS
) -> bool:
    """Boots the tiny guest once, and tells whether it said so within `seconds`."""
    spec = GuestSpec(vmid=0, name="probe", node="", memory=command.LEAST_MEMORY, cores=1, smbios=Smbios(""))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = command.argv(
            spec,
            tiny,
            switches={},
            drive=None,
            monitor=theirs.fileno(),
            caps=command.Caps(),
            accelerator=accelerator,
        )
        child = await Child.start(argv, directory, descriptors=[theirs.fileno()])
    try:
        async with asyncio.timeout(seconds):
            await child.output.until(UP)
        return True
    except TimeoutError:
        return False
    finally:
        await child.kill()

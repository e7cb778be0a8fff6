"""What the host lacks to run real guests, said with the names of the Debian packages that bring it."""

import shutil
import struct
from pathlib import Path

PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "setpriv": "util-linux",
}


class Missing(Exception):
    """Tells what is missing; `packages` are Debian's names for it."""

    def __init__(self, what: str, *packages: str) -> None:
        super().__init__(f"{what} (Debian packages: {', '.join(packages)})")
        self.packages = packages


def check() -> None:
    """Raises Missing when a program that every guest needs is not installed."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        raise Missing(
            f"real guests need {', '.join(absent)}, not found in PATH", *(PROGRAMS[name] for name in absent)
        )


def busybox() -> Path:
    """Answers the static busybox; raises Missing when the one that is installed needs a loader."""
    found = shutil.which("busybox")
    if found is None or _has_interpreter(Path(found).read_bytes()):
        raise Missing("the tiny guest needs a statically linked busybox", PROGRAMS["busybox"])
    return Path(found)


def _has_interpreter(elf: bytes) -> bool:
    """Tells whether a 64-bit ELF file names a loader (a program header of the type PT_INTERP, 3)."""
    start, size, count = (
        *struct.unpack_from("<Q", elf, 32),
        *struct.unpack_from("<HH", elf, 54),
    )
    return any(struct.unpack_from("<I", elf, start + size * n)[0] == 3 for n in range(count))

"""The tiny guest: a kernel and an initrd that boot in seconds and show on a page what they were started with.

It stands in for every disk image a template may name, so that "the server runs" can be measured without one. It
is built at first use into a cache: the kernel comes from `debian_kernel`, the rest is busybox and the few
scripts in `tinyroot`. Building is idempotent, and safe for several processes at once.
"""

import fcntl
import hashlib
import lzma
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zone9.sandbox.guests import debian_kernel, missing
from zone9.sandbox.guests.cpio import Cpio

ROOT = Path(__file__).parent / "tinyroot"
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "isofs", "button", "evdev")
APPLETS = (
    *(
        "[",
        "arping",
        "awk",
        "cat",
        "cut",
        "dd",
        "grep",
        "hostname",
        "httpd",
        "ifconfig",
        "insmod",
        "ip",
        "mount",
        "nc",
    ),
    *("poweroff", "sed", "sh", "sha256sum", "sleep", "tr", "udhcpc", "wc", "printf", "echo"),
)


@dataclass(frozen=True, slots=True)
class Tiny:
    """Is what QEMU boots directly."""

    kernel: Path
    initrd: Path


def cache_directory() -> Path:
    """Answers `$ZONE9_CACHE`, root's /var/cache/zone9, or zone9 in the user's cache directory (XDG)."""
    if named := os.environ.get("ZONE9_CACHE"):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/cache/zone9")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zone9"


def ready(cache: Path | None = None, kernel: Path | None = None) -> Tiny:
    """Answers the tiny guest, building what the cache lacks; raises Missing naming Debian packages. It blocks."""
    directory = (cache or cache_directory()) / "tiny"
    directory.mkdir(parents=True, exist_ok=True)
    busybox = missing.busybox()
    with _alone(directory):
        found = debian_kernel.find(directory, kernel)
        content = initrd(found.modules, busybox.read_bytes())
        path = directory / f"initrd-{hashlib.sha256(content).hexdigest()[:16]}.img"
        if not path.exists():
            fresh = path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(path)
    return Tiny(found.image, path)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def initrd(modules: Path, busybox: bytes) -> bytes:
    """Makes the initrd of the scripts, busybox and the modules under `modules`; raises Missing for an absent one."""
    archive = Cpio()
    for name in ("bin", "cidata", "dev", "modules", "proc", "sys", "www", "www/cgi-bin"):
        archive.directory(name)
    archive.character_device("dev/console", 5, 1)
    archive.file("bin/busybox", busybox, executable=True)
    for applet in APPLETS:
        archive.link(f"bin/{applet}", "busybox")
    for script in ("dhcp", "network.awk"):
        archive.file(f"bin/{script}", (ROOT / script).read_bytes(), executable=True)
    for name in ("disks", "fetch", "note"):
        archive.file(f"www/cgi-bin/{name}", (ROOT / name).read_bytes(), executable=True)
    archive.file("init", (ROOT / "init").read_bytes(), executable=True)
    wanted = with_dependencies(modules)
    for name, content in wanted.items():
        archive.file(f"modules/{name}.ko", content)
    archive.file("modules/order", "".join(f"{name}\n" for name in wanted).encode())
    return archive.finished()


def with_dependencies(modules: Path, wanted: tuple[str, ...] = MODULES) -> dict[str, bytes]:
    """Answers the modules in an order in which they load; what is built into the kernel is left out."""
    files = {path.name.split(".")[0].replace("-", "_"): path for path in modules.rglob("*.ko*")}
    built_in = {
        line.rsplit("/", 1)[-1].split(".")[0].replace("-", "_")
        for line in (modules / "modules.builtin").read_text().splitlines()
    }
    loaded: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in loaded or name in built_in:
            return
        if name not in files:
            raise missing.Missing(f"{modules} has no module {name}", debian_kernel.PACKAGE)
        content = _plain(files[name])
        depends = re.search(rb"(?:^|\0)depends=([^\0]*)\0", content)
        for other in (depends.group(1).decode() if depends else "").split(","):
            if other:
                add(other.replace("-", "_"))
        loaded[name] = content

    for name in wanted:
        add(name)
    return loaded


def _plain(path: Path) -> bytes:
    """Reads a module; Debian compresses them with xz from 13 on."""
    match path.suffix:
        case ".ko":
            return path.read_bytes()
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case other:
            raise missing.Missing(
                f"{path} is compressed as {other}, which is not read", debian_kernel.PACKAGE
            )

"""Finds a kernel for the tiny guest: one that is there already, or Debian's cloud kernel, unpacked but never installed.

The cloud kernel is small, has the virtio drivers as modules, and `apt-get download` fetches it as an ordinary
user. Nothing is run from the package. Once cached it is used until the cache is deleted.
"""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from zone9.sandbox.guests.missing import Missing

PACKAGE = "linux-image-cloud-amd64"
BOOT = Path("/boot")


@dataclass(frozen=True, slots=True)
class Kernel:
    """Is a kernel image and the directory of the modules that belong to it."""

    version: str
    image: Path
    modules: Path


def kernel_of(image: Path) -> Kernel:
    """Takes `…/boot/vmlinuz-VERSION` with its `…/lib/modules/VERSION`; raises Missing when either is not there."""
    version = image.name.removeprefix("vmlinuz-")
    modules = image.parent.parent / "lib" / "modules" / version
    if not (image.is_file() and modules.is_dir()):
        raise Missing(f"{image} is no kernel with its modules in {modules}", PACKAGE)
    return Kernel(version, image, modules)


def find(cache: Path, image: Path | None = None) -> Kernel:
    """Answers the kernel `image`, else the cached one, else an installed cloud kernel, else a fetched one."""
    if image is not None:
        return kernel_of(image)
    cached = _newest(cache / "kernel" / "boot")
    if cached is not None:
        return cached
    installed = _newest(BOOT, "vmlinuz-*-cloud-amd64")
    return installed or _fetch(cache)


def _newest(boot: Path, pattern: str = "vmlinuz-*") -> Kernel | None:
    images = sorted(boot.glob(pattern), key=lambda image: [int(n) for n in re.findall(r"\d+", image.name)])
    for image in reversed(images):
        modules = image.parent.parent / "lib" / "modules" / image.name.removeprefix("vmlinuz-")
        if modules.is_dir():
            try:
                image.open("rb").close()
            except PermissionError:
                continue
            return kernel_of(image)
    return None


def _fetch(cache: Path) -> Kernel:
    """Downloads and unpacks; the result appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as name:
        work = Path(name)
        meta = _download(PACKAGE, work)
        depends = _run(["dpkg-deb", "--field", str(meta), "Depends"], work)
        found = re.search(r"linux-image-\S+-cloud-amd64", depends)
        if found is None:
            raise Missing(f"the package {PACKAGE} names no kernel", PACKAGE)
        package = _download(found.group(), work)
        _run(["dpkg-deb", "--extract", str(package), "root"], work)
        image = next((work / "root" / "boot").glob("vmlinuz-*"))
        version = image.name.removeprefix("vmlinuz-")
        modules = next((work / "root").glob(f"**/modules/{version}"))
        target = work / "kernel"
        (target / "boot").mkdir(parents=True)
        (target / "lib" / "modules").mkdir(parents=True)
        image.rename(target / "boot" / image.name)
        modules.rename(target / "lib" / "modules" / version)
        shutil.rmtree(cache / "kernel", ignore_errors=True)
        target.rename(cache / "kernel")
    return kernel_of(cache / "kernel" / "boot" / image.name)


def _download(package: str, work: Path) -> Path:
    _run(["apt-get", "--quiet", "download", package], work)
    return next(work.glob(f"{package}_*.deb"))


def _run(command: list[str], work: Path) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=work,
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )
    except FileNotFoundError as error:
        raise Missing(f"{command[0]} is not there to fetch a kernel with", PACKAGE) from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Missing(f"{' '.join(command)} failed ({said}); `apt-get update` may help", PACKAGE) from error
    return done.stdout

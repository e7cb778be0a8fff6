"""A writer of cpio archives in the `newc` form, which is what Linux reads as an initrd.

The same contents always give the same bytes, and device nodes need no privilege: they are only written down.
The format is in the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import stat


class Cpio:
    """Collects entries; parents must be added before their children."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inode = 0

    def directory(self, name: str) -> None:
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, content: bytes, *, executable: bool = False) -> None:
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def link(self, name: str, target: str) -> None:
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, name: str, major: int, minor: int) -> None:
        self._add(name, stat.S_IFCHR | 0o600, b"", (major, minor))

    def finished(self) -> bytes:
        """Answers the archive with its trailer."""
        self._add("TRAILER!!!", 0, b"")
        return bytes(self._data)

    def _add(self, name: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        name_bytes = name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = (self._inode, mode, 0, 0, links, 0, len(content), 0, 0, *device, len(name_bytes), 0)
        self._data += b"070701" + b"".join(b"%08x" % field for field in fields)
        self._data += name_bytes
        self._pad()
        self._data += content
        self._pad()

    def _pad(self) -> None:
        self._data += bytes(-len(self._data) % 4)

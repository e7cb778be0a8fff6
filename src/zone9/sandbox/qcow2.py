"""The qcow2 format, as far as a sandbox needs it: reading a header, and writing an empty layer over another image.

Source: QEMU's docs/interop/qcow2.txt. `qemu-img` need not be on this machine.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"QFI\xfb"
VERSIONS = frozenset({2, 3})
# Magic, version, backing file's offset and length (no name is at 0), cluster bits, virtual size; all big-endian.
HEAD = struct.Struct(">4sIQIIQ")
# Where version 3 says what a reader must know; bit 2 of it is an external data file.
INCOMPATIBLE = 72
DATA_FILE = 1 << 2

CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
# Encryption, L1 entries and offset, refcount table's offset and clusters, snapshots and their offset, three
# sets of features, log2 of a refcount's bits, the header's length.
REST = struct.Struct(">IIQQIIQQQQII")
BACKING_FORMAT = 0xE2792ACA
ENTRY = 8  # bytes of an L1, L2 or refcount table entry
REFCOUNT_BITS = 4  # log2: 16 bits
# Header, refcount table and its one block, which counts 32,768 clusters: far more than the L1 table takes.
L1_CLUSTER = 3


@dataclass(frozen=True, slots=True)
class Qcow2:
    """Is what a qcow2 header says; `size` is the virtual size in bytes."""

    size: int
    backed: bool = False
    data_file: bool = False


def read(path: Path) -> Qcow2 | None:
    """Answers the header of a qcow2 image, None where it is something else or cut off."""
    with path.open("rb") as file:
        head = file.read(HEAD.size + REST.size)
        if len(head) < HEAD.size:
            return None
        magic, version, backing, _, _, size = HEAD.unpack_from(head)
        if magic != MAGIC or version not in VERSIONS:
            return None
        incompatible = 0
        if version > 2:
            if len(head) < INCOMPATIBLE + 8:
                return None
            (incompatible,) = struct.unpack_from(">Q", head, INCOMPATIBLE)
    return Qcow2(size, backing != 0, bool(incompatible & DATA_FILE))


def write_layer(path: Path, base: Path, size: int) -> None:
    """Writes an image of `size` bytes in which nothing was written yet: all of it is read from `base`.

    The base's suffix is its format, so that nobody guesses it from bytes that a guest wrote. The base must not
    change as long as there is a layer over it.
    """
    name, kind = str(base).encode(), (b"qcow2" if base.suffix == ".qcow2" else b"raw")
    extension = struct.pack(">II", BACKING_FORMAT, len(kind)) + kind.ljust(8, b"\0") + bytes(8)
    header = HEAD.size + REST.size
    entries = -(-size // (CLUSTER * CLUSTER // ENTRY))  # an L2 table is one cluster of entries
    tables = -(-entries * ENTRY // CLUSTER)
    used = L1_CLUSTER + tables
    with path.open("wb") as file:
        file.write(HEAD.pack(MAGIC, 3, header + len(extension), len(name), CLUSTER_BITS, size))
        file.write(
            REST.pack(0, entries, L1_CLUSTER * CLUSTER, CLUSTER, 1, 0, 0, 0, 0, 0, REFCOUNT_BITS, header)
        )
        file.write(extension + name)
        file.seek(CLUSTER)
        file.write(struct.pack(">Q", 2 * CLUSTER))
        file.seek(2 * CLUSTER)
        file.write(struct.pack(">H", 1) * used)
        file.truncate(used * CLUSTER)

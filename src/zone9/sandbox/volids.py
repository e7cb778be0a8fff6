"""Volume names: what they say about a volume, where its file is on the node, who may read it, how a new one is called.

The rules are those of a directory storage (pve-storage, Plugin.pm `parse_volname`, and Storage.pm
`normalize_content_filename` and `check_volume_access`). A name that parses need not exist.
"""

import re
from dataclasses import dataclass

from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.call import Call
from zone9.sandbox.state import Storage

ISO = re.compile(r"\.(?:iso|img)$", re.IGNORECASE)
TEMPLATE = re.compile(r"\.tar(?:\.(gz|xz|zst|bz2))?$", re.IGNORECASE)
# An .ovf may lie there, but cannot be sent: alone it is no disk.
IMPORTED = re.compile(r"[\w.+=-]+\.(ova|qcow2|raw|vmdk)$", re.ASCII)
VOLUME_ID = re.compile(r"([A-Za-z][\w.-]*[A-Za-z0-9]):(.+)", re.ASCII)
IMAGE = re.compile(r"(?:\d+/(?:base-)?[^/\s]+/)?(\d+)/((?:base-)?[^/\s]+\.(raw|qcow2|vmdk|subvol))")
BLOCK = re.compile(r"(?:base|vm)-(\d+)-\S+")
OTHER = re.compile(r"(iso|vztmpl|backup|snippets|import)/([^/]+)")
DIRECTORIES = {
    "iso": "template/iso",
    "vztmpl": "template/cache",
    "backup": "dump",
    "snippets": "snippets",
    "import": "import",
}


@dataclass(frozen=True, slots=True)
class Name:
    """Is a volume id taken apart; `path` is the file on the node, `owner` the VM whose image it is."""

    volid: str
    content: str
    path: str
    format: str
    owner: int | None = None


def normalized(filename: str) -> str:
    """Answers what Proxmox makes of a file's name: no directories, and only letters, digits and `_.-`."""
    name = re.split(r"[/\\]", filename.removesuffix("\n"))[-1]
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def checked_filename(content: str, filename: str) -> tuple[str, str]:
    """Answers a file's name on the storage and its format, or refuses a wrong extension."""
    name = normalized(filename)
    if content == "import":
        match = IMPORTED.search(name)
        if match is None:
            raise refused(filename="invalid filename or wrong extension")
        return name, match[1]
    match = (ISO if content == "iso" else TEMPLATE).search(name)
    if match is None or not match.start():
        raise refused(filename="wrong file extension")
    if content == "iso":
        return name, "iso"
    return name, f"t{match[1]}" if match[1] else "tar"


def directory(storage: Storage, content: str) -> str:
    """Answers where a storage keeps this kind of content."""
    return f"{storage.path}/{DIRECTORIES[content]}"


def volume_id(storage: str | None, name: str) -> str:
    """Answers the full id of a volume that a request names, with or without its storage."""
    if ":" not in name:
        if not storage:
            raise refused(volume="no storage specified - incomplete volume ID")
        return f"{storage}:{name}"
    match = VOLUME_ID.fullmatch(name)
    if match is None:
        raise refused(volume=f"unable to parse volume ID '{name}'\n")
    if storage and match[1] != storage:
        raise refused(volume=f"storage ID mismatch ({match[1]} != {storage})\n")
    return name


def parse(storage: Storage, volid: str) -> Name:
    """Takes a volume id apart, or says that it is none."""
    name = volid.split(":", 1)[1]
    if storage.kind != "dir":
        block = BLOCK.fullmatch(name)
        if block is None:
            raise PveError(f"unable to parse lvm volume name '{name}'")
        return Name(volid, "images", f"/dev/{storage.name}/{name}", "raw", int(block[1]))
    if image := IMAGE.fullmatch(name):
        path = f"{storage.path}/images/{image[1]}/{image[2]}"
        return Name(volid, "images", path, image[3], int(image[1]))
    other = OTHER.fullmatch(name)
    if other is None:
        raise PveError(f"unable to parse directory volume name '{name}'")
    content, file = other[1], other[2]
    suffix = "raw"
    if content == "import":
        found = re.fullmatch(r"[\w.+= -]+\.(ova|ovf|qcow2|raw|vmdk)", file, re.ASCII)
        suffix = found[1] if found else ""
    elif (content == "iso" and not ISO.search(file)) or (content == "vztmpl" and not TEMPLATE.search(file)):
        suffix = ""
    if not suffix:
        raise PveError(f"unable to parse directory volume name '{name}'")
    return Name(volid, content, f"{directory(storage, content)}/{file}", suffix)


def must_read(call: Call, name: Name) -> None:
    """Refuses who may not read a volume."""
    where = f"/storage/{name.volid.split(':', 1)[0]}"
    if call.may(where, "Datastore.Allocate"):
        return
    if name.content in {"iso", "vztmpl", "import"}:
        call.must(where, "Datastore.AllocateSpace", "Datastore.Audit", any_of=True)
    elif name.owner is not None:
        call.must(where, "Datastore.Audit")
        call.must(f"/vms/{name.owner}", "VM.Config.Disk")
    else:
        raise PveError(f"missing privileges to access {name.volid}")

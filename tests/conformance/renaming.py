"""Other names and numbers for a recording: what the sandbox answers must not hang on those that were recorded.

One mapping serves the requests, the state that they begin from, and the answers that are expected. Names are
renamed as whole words. Numbers of VMs are renamed where a text can only mean a VM, and in the fields that hold one;
they keep their order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAMES = {
    "pve1": "hostx", "vmstore": "pool-a", "vmstore2": "pool-b", "tiny": "shelf", "tenant1": "custa", "vmbr0": "vmbr40",
    "z9": "op", "z9na": "opna", "z9pool": "oppool", "z9none": "opnone", "ctl": "key1",
}  # fmt: skip
SHIFT = 5000
# Where a number is a VM's: (?P<n>…) is the number.
PLACES = re.compile(
    r"(?:(?<=/qemu/)|(?<=\bqemu/)|(?<=/vms/)|(?<=vm-)|(?<=base-)|(?<=\bVM )|(?<=\bCT )|(?<=/images/)|(?<=\bvm:)"
    r"|(?<=\bvm%3A)|(?<=vzdump-qemu-)|(?<=VM ')|(?<=\bsid=)|(?<=/resources/)|(?<=\bvmid=)|(?<=\bvms=)|(?<=\bnewid=)|(?<=\btarget-vmid=)|(?<=\block-)"
    r"|(?<=/qemu-server/)|(?<=\btap)|(?<=\bveth)|(?<=pve-vm-9\.0/)|(?<=\bvm )|(?<=\bID )|(?<=\bvzdump )|(?<=\bauthid=)"
    r"|(?<=\bterminal )|(?<=path%3D%2Fvms%2F)|(?<=%2Fvms%2F)|(?<=Could not find VM )|(?<=\.qcow2, ))(?P<n>\d{3})(?!\d)"
)
VOLUMES = re.compile(
    r"(?:(?<=[:/'])|(?<=clone ))(?P<n>\d{3})(?=/(?:vm|base)-)|(?<=%3A)(?P<m>\d{3})(?=%2F(?:vm|base)-)"
)
WORKERS = re.compile(
    r"(?P<head>(?::|%3A)(?:qm\w+|vzdump|vncproxy|hastart|hastop|resize|move|imgdel)(?::|%3A))(?P<n>\d{3})(?=:|%3A|@|%40)"
)
IDS = re.compile(r"^\d{3}(?=[:@-])|(?<=>)\d{3}(?=-)")
FIELDS = frozenset({"vmid", "newid", "target-vmid", "source"})


@dataclass(frozen=True)
class Renaming:
    """Renames texts and documents; without names and shift it changes nothing."""

    names: Mapping[str, str] = field(default_factory=dict)
    shift: int = 0

    def __post_init__(self) -> None:
        words = "|".join(re.escape(name) for name in sorted(self.names, key=len, reverse=True)) or r"(?!)"
        # In an address a word may follow an escape, whose digits are no part of it.
        object.__setattr__(
            self, "_words", re.compile(rf"(?:(?<![\w%])|(?<=%[0-9A-Fa-f]{{2}}))(?:{words})(?!\w)")
        )

    def number(self, vmid: int) -> int:
        return vmid + self.shift if 100 <= vmid < 1000 else vmid

    def text(self, text: str) -> str:
        """Returns a text with the names and the VMs' numbers that it can only mean."""
        if not self.shift and not self.names:
            return text
        text = self._words.sub(lambda match: self.names[match[0]], text)  # type: ignore[attr-defined]
        text = WORKERS.sub(lambda match: match["head"] + str(self.number(int(match["n"]))), text)
        text = VOLUMES.sub(lambda match: str(self.number(int(match["n"] or match["m"]))), text)
        return PLACES.sub(lambda match: str(self.number(int(match["n"]))), text)

    def document(self, found: Any, key: str = "", row: Any = None) -> Any:
        """Returns a JSON document renamed; `key` and `row` say where in it we are."""
        if isinstance(found, dict):
            return {self._key(name, key): self.document(value, name, found) for name, value in found.items()}
        if isinstance(found, list):
            return [self.document(one, key, row) for one in found]
        if isinstance(found, int) and not isinstance(found, bool):
            return self.number(found) if key in FIELDS or (key == "id" and _is_guest(row)) else found
        if isinstance(found, str):
            whole = key in FIELDS or (key == "id" and _is_task(row))
            if whole and found.isdigit():
                return str(self.number(int(found)))
            if key == "id":
                found = IDS.sub(lambda match: str(self.number(int(match[0]))), found)
            return self.text(found)
        return found

    def _key(self, name: str, within: str) -> str:
        """Renames a key that is a name itself: a path, a tap device, a token."""
        return self.text(name) if name.startswith(("/", "tap")) or within == "tokens" else name

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns a recorded row renamed."""
        if "request" not in row:
            return row
        request, response = dict(row["request"]), dict(row["response"])
        request["url"] = self.text(request["url"])
        if isinstance(request.get("body"), str):
            request["body"] = self.text(request["body"])
        response["reason"] = self.text(response.get("reason") or "")
        if "json" in response:
            response["json"] = self.document(response["json"])
        return {**row, "request": request, "response": response}


def _is_task(row: Any) -> bool:
    return isinstance(row, dict) and "upid" in row


def _is_guest(row: Any) -> bool:
    return isinstance(row, dict) and row.get("type") == "qemu"


SAME = Renaming()
OTHER = Renaming(NAMES, SHIFT)

"""Which keys a VM's config can have, and a call's values for them as text."""

from functools import lru_cache

from zone9.sandbox import schema
from zone9.sandbox.call import Call

CONFIG = "/nodes/{node}/qemu/{vmid}/config"
# Parameters of the config calls that are not keys of a config.
NOT_KEYS = frozenset(
    [
        "node",
        "vmid",
        "delete",
        "revert",
        "digest",
        "force",
        "skiplock",
        "background_delay",
        "archive",
        "bwlimit",
        "pool",
        "start",
        "storage",
        "unique",
        "live-restore",
        "import-working-storage",
        "skip_cloud_init",
        "ha-managed",
    ]
)
# Keys that stand in a config but cannot be sent.
INTERNAL = frozenset({"parent", "meta", "snaptime", "vmstate", "runningmachine", "runningcpu", "snapstate"})
LIMITS = {
    "net": 32,
    "ipconfig": 32,
    "ide": 4,
    "sata": 6,
    "scsi": 31,
    "virtio": 16,
    "unused": 256,
    "numa": 8,
    "hostpci": 16,
    "usb": 14,
    "serial": 4,
    "parallel": 3,
    "virtiofs": 10,
}


@lru_cache(maxsize=1)
def _keys() -> frozenset[str]:
    properties = schema.paths()[CONFIG]["PUT"]["parameters"]["properties"]
    return frozenset(properties) - NOT_KEYS


@lru_cache(maxsize=4096)
def exists(key: str) -> bool:
    """Tells whether Proxmox knows an option of this name."""
    if key in _keys() or key in INTERNAL or key == "efidisk0":
        return True
    base = key.rstrip("0123456789")
    index = key[len(base) :]
    return (
        bool(index)
        and f"{base}[n]" in _keys()
        and int(index) < LIMITS.get(base, 0)
        and index == str(int(index))
    )


def plain_values(call: Call) -> dict[str, str]:
    """Answers the config keys of a call as the text that would be stored."""
    return {key: str(call.params[key]) for key in call.raw if key not in NOT_KEYS and key in call.params}

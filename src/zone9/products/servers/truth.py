"""What is: a server's VM as it was read, reduced to the keys that are ours and brought to one form.

Everything that Proxmox writes in several ways (memory as text, tags in any order, property strings) is brought
to one form by `observe`, so that `plan` compares values and never text.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

NEVER_CLONED = (None, "refused", "not_sent", "not_applied")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Nic(_Frozen):
    """Is one network card: MAC address in lower case, VLAN tag None for untagged."""

    mac: str
    bridge: str
    tag: int | None = None


class Settings(_Frozen):
    """Is the part of a VM's config that zone9 owns. `None` means that the key is not there."""

    name: str | None = None
    cores: int = 1
    memory_mib: int = 512
    nics: dict[str, Nic] = Field(default_factory=dict)
    ipconfig: dict[str, str] = Field(default_factory=dict)
    ssh_keys: str | None = None
    user: str | None = None
    nameserver: str | None = None
    tags: tuple[str, ...] = ()
    uuid: str | None = None
    marker: str | None = None


class Place(_Frozen):
    """Is what zone9 decided and wrote down before it sent the clone."""

    vmid: int
    node: str
    uuid: str
    nonce: str
    template: int
    template_node: str
    identified: bool = False
    link_digest: str | None = None

    @property
    def linked(self) -> bool:
        """Tells a VM that zone9 was told to take over: it carries no marker of ours."""
        return not self.nonce


class Unsettled(_Frozen):
    """Is a write whose outcome is not known yet."""

    step: str
    upid: str | None = None
    running: bool = False
    percent: float | None = None
    text: str = ""


class Failed(_Frozen):
    """Is a task of ours that has just ended badly, and what its class of error decides."""

    step: str
    code: str
    text: str
    passing: bool
    delay: float | None = None


class ServerTruth(_Frozen):
    """Is one look at a server."""

    place: Place | None = None
    clone_outcome: str | None = None
    vm: Literal["none", "absent", "placeholder", "ours", "foreign"] = "none"
    node: str | None = None
    status: str | None = None
    lock: str | None = None
    ha_managed: bool = False
    uptime: int = 0
    now: Settings | None = None
    after_restart: Settings | None = None
    disk_bytes: int | None = None
    disk_key: str | None = None
    digest: str | None = None
    config: dict[str, Any] = Field(default_factory=dict, repr=False)
    pending: dict[str, Any] = Field(default_factory=dict)
    unsettled: Unsettled | None = None
    failed: Failed | None = None
    foreign_task: str | None = None
    deleted_by_us: bool = False
    restarts_done: int = 0
    off_seconds: float | None = None
    asked_power: str | None = None
    asked_power_seconds: float = 0.0
    booted: bool = False
    tags_ours: tuple[str, ...] = ()
    absent_text: str | None = None
    absence: Literal["unproven", "proven"] | None = None
    absence_why: str | None = None
    lost_at: str | None = None
    twins: tuple[int, ...] = ()

    @property
    def never_was(self) -> bool:
        """Tells that no clone of ours was ever carried out: the VMID stands for nothing yet."""
        place = self.place
        return (
            place is not None
            and not place.identified
            and not place.linked
            and self.clone_outcome in NEVER_CLONED
        )

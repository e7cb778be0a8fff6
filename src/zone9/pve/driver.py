"""Why: a product needs a region's client together with what the region's operator said about its limits.

This module holds them together and decides nothing.
"""

from dataclasses import dataclass, replace

from zone9.pve.client import Client, OnRead


@dataclass(frozen=True, slots=True)
class RegionDriver:
    """Is one region, ready to be driven.

    `settle_seconds`: how long an unanswered write may still turn up; longer than the 30 s for which Proxmox's own
    proxy holds a request. `wanting`: what the region's last self-test found wrong, in sentences; while there is anything,
    nothing is written to the region. `task_patience`: seconds for which a run stays with a task before it ends and waits.
    """

    client: Client
    settle_seconds: float = 35.0
    clones_per_template: int = 2
    wanting: str = ""
    task_patience: float = 5.0
    storage: str | None = None
    full_clone: bool = False

    def recording(self, on_read: OnRead) -> "RegionDriver":
        return replace(self, client=self.client.recording(on_read))

    @property
    def token_id(self) -> str:
        """Returns our token's name (`user@realm!name`), as it stands in task ids."""
        return self.client.endpoint.token_id

"""Where a new server goes. Pure: the node is chosen once, from what one pass saw, and written down before the clone."""

from dataclasses import dataclass

from zone9.base.errors import Later
from zone9.pve.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Chosen:
    """Is a node to make the server on, and the copy of the image to make it from."""

    node: str
    template: int
    template_node: str


def choose(inventory: Inventory, templates: tuple[int, ...], memory_mib: int, storage: str | None) -> Chosen:
    """Picks the online node with the most free memory among those that can hold a clone.

    A clone lands where its template's disks are; only on shared storage may it land elsewhere. Raises Later when no
    copy of the image is listed as a template (which is no proof that there is none: a row of a node that is away does
    not say what it is) or on a node that is online.
    """
    copies = [inventory.guests[vmid] for vmid in templates if vmid in inventory.guests]
    copies = [guest for guest in copies if guest.template]
    if not copies:
        raise Later("no copy of the image is listed in the region", code="image_copy_missing", delay=20.0)
    online = {name: node for name, node in inventory.nodes.items() if node.status == "online"}
    shared = storage is not None and any(row.storage == storage and row.shared for row in inventory.storages)
    found: list[tuple[int, str, Chosen]] = []
    for copy in copies:
        if copy.node not in online:
            continue
        for name in online if shared else [copy.node]:
            node = online[name]
            free = (node.maxmem or 0) - (node.mem or 0) - memory_mib * 1024**2
            found.append((-free, name, Chosen(name, copy.vmid, copy.node)))
    if not found:
        raise Later("no node that holds a copy of the image is online", code="no_node_online", delay=10.0)
    return min(found, key=lambda one: one[:2])[2]

"""The modelled methods of the API, by the part of the tree they are in; importing this fills the table."""

from zone9.sandbox.calls import (
    access,
    backup,
    cluster,
    consoles,
    containers,
    firewall,
    firewall_sets,
    ha,
    nodes,
    pools,
    rrd,
    sdn,
    tasks,
    vms,
    volumes,
)

__all__ = [
    "access",
    "backup",
    "cluster",
    "consoles",
    "containers",
    "firewall",
    "firewall_sets",
    "ha",
    "nodes",
    "pools",
    "rrd",
    "sdn",
    "tasks",
    "vms",
    "volumes",
]

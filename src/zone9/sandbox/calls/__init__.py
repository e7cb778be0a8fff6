"""The modelled methods of the API, by the part of the tree they are in; importing this fills the table."""

from zone9.sandbox.calls import access, cluster, containers, firewall, ha, nodes, tasks, vms, volumes

__all__ = ["access", "cluster", "containers", "firewall", "ha", "nodes", "tasks", "vms", "volumes"]

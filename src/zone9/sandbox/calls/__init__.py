"""The modelled methods of the API, by the part of the tree they are in; importing this fills the table."""

from zone9.sandbox.calls import access, cluster, nodes, tasks, vms

__all__ = ["access", "cluster", "nodes", "tasks", "vms"]

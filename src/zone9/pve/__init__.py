"""The Proxmox driver: the only part of zone9 that talks to Proxmox VE.

It says what Proxmox said and does what it is told, once. It never decides what ought to be, never re-sends a
write, and never takes a missing row for a deletion.
"""

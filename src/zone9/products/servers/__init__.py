"""Servers: a virtual machine in Proxmox, from intent to a VM that was read back."""

"""The sandbox's machines: what a running VM is once Proxmox's words about it have been read."""

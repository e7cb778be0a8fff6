"""zone9: a cloud control plane for Proxmox VE that reports what it measured."""

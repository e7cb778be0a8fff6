"""Networks: an existing bridge and VLAN with a range of addresses. Nothing is created in Proxmox."""

"""How long Proxmox's work takes, in virtual seconds; each can be set, so that a test sees a task half done.

The defaults are what was measured on the real code with small disks (pve-facts 6 and 6.2, timing).
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Durations:
    """Holds seconds, and the speed of a disk copy in bytes a second."""

    create: float = 0.4
    clone_placeholder: float = 0.1
    linked_disk: float = 0.2
    cloudinit_disk: float = 0.1
    copy_bytes_per_second: float = 200 * 2**20
    config: float = 0.2
    start_checks: float = 0.1
    start: float = 1.0
    stop: float = 0.4
    shutdown: float = 3.0
    reset: float = 0.1
    pause: float = 0.0
    snapshot: float = 1.0
    resize: float = 0.1
    template: float = 0.3
    delete: float = 0.3
    # What a worker does before it looks at a file: a client that asks at once sees it running (recorded).
    upload: float = 0.4
    download: float = 0.4
    image_delete: float = 0.1
    migrate: float = 5.0
    nic_replug: float = 2.0
    nic_plug: float = 1.0
    nic_unplug: float = 1.3
    disk_unplug: float = 2.0
    busy_unplug: float = 6.0
    # pveproxy gives up on pvedaemon, which goes on (pve-facts 6.2, disks 2).
    proxy_patience: float = 30.0
    # How long a request that is no upload hangs where an upload was due.
    upload_patience: float = 5.0
    agent_timeout: float = 3.0
    unauthenticated: float = 3.0
    # qm cleanup: how long after QEMU's end it comes, and how long it holds the lock of a VM that runs again.
    cleanup_after: float = 0.5
    cleanup_hold: float = 30.0
    restart_after: float = 1.0
    # How long a new VM's row has no name (pvestatd's cycle is 10 s; 0 makes rows complete at once).
    list_lag: float = 0.0
    # How long it is not even in the list of another node's making.
    row_lag: float = 0.0

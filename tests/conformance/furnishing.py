"""The state that the recordings began from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zone9.sandbox import Sandbox
from zone9.sandbox.state import Pool
from zone9.sandbox.vm.values import parse_drive, print_drive

if TYPE_CHECKING:
    from replaying import Replay

# The role of the recordings' control plane.
RECORDED_ROLE = frozenset(
    [
        "VM.Allocate",
        "VM.Audit",
        "VM.Clone",
        "VM.Config.CDROM",
        "VM.Config.CPU",
        "VM.Config.Cloudinit",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.PowerMgmt",
        "VM.Snapshot",
        "VM.Snapshot.Rollback",
        "VM.Console",
        "VM.GuestAgent.Audit",
        "VM.GuestAgent.Unrestricted",
        "Datastore.AllocateSpace",
        "Datastore.Audit",
        "Datastore.AllocateTemplate",
        "SDN.Use",
        "SDN.Audit",
        "Sys.Audit",
        "Pool.Audit",
        "Pool.Allocate",
    ]
)


def furnish(sandbox: Sandbox, replay: Replay) -> None:
    """Makes the single node of the recordings, with its root token."""
    text = replay.rename.text
    node, store = sandbox.cluster.nodes[text("pve1")], text("vmstore")
    node.cpus, node.address = 2, "10.99.0.1"
    node.bridges = {text(name): cidr for name, cidr in node.bridges.items()}
    del sandbox.cluster.storages["local-lvm"]
    known = sandbox.cluster.storages.pop("vmstore")
    known.name, known.path = store, text(known.path)
    sandbox.cluster.storages[store] = known
    volid = sandbox.add_import("base.qcow2", 64 * 2**20, storage=store)
    known.on(node.name)[volid].file_size = 196616
    sandbox.accounts.users.pop("zone9@pve")
    sandbox.accounts.acl.clear()
    sandbox.accounts.changed()
    replay.know("root", sandbox.accounts.add_token("root@pam!boot", privsep=False))


def furnish_earlier(sandbox: Sandbox, replay: Replay) -> None:
    """Adds the VM of the rows that come from an earlier run."""
    text = replay.rename.text
    replay.know("ctl", sandbox.accounts.add_token(text("z9@pve!ctl"), privsep=False))
    sandbox.accounts.grant("/", text("z9@pve"), RECORDED_ROLE)
    sandbox.add_vm(
        replay.rename.number(101),
        storage=text("vmstore"),
        vga="serial0",
        name="web2",
        disk="64M",
        cloudinit=True,
        memory="128",
        tags="alpha;beta",
        agent="enabled=1",
        serial0="socket",
    )
    rename_configs(sandbox, replay)


def rename_configs(sandbox: Sandbox, replay: Replay) -> None:
    """Renames what the sandbox itself put into the machines of the state: the bridge."""
    for vm in sandbox.vms.values():
        for key, value in vm.config.items():
            vm.file.put(key, replay.rename.text(value))


def furnish_second(sandbox: Sandbox, replay: Replay) -> None:
    """Adds the accounts and templates that the second recording started from."""
    text, store = replay.rename.text, replay.rename.text("vmstore")
    volid = sandbox.add_import("big.qcow2", 300 * 2**20, storage=store)
    sandbox.cluster.storages[store].on(text("pve1"))[volid].file_size = 314900480
    accounts = sandbox.accounts
    for name in ("z9", "z9na", "z9pool", "z9none"):
        accounts.add_user(text(f"{name}@pve"), "<PASSWORD>")
        replay.know("ctl" if name == "z9" else name, accounts.add_token(text(f"{name}@pve!ctl")))
    accounts.roles["Z9"] = RECORDED_ROLE
    accounts.roles["Z9na"] = accounts.roles["Z9"] - {"VM.Audit", "VM.Console"}
    for name, role, path in (("z9", "Z9", "/"), ("z9na", "Z9na", "/"), ("z9pool", "Z9", "/pool/tenant1")):
        for who in (f"{name}@pve", f"{name}@pve!ctl"):
            accounts.grant(text(path), text(who), role)
    for name, content, total in (
        ("vmstore2", ("iso", "images"), 256 * 2**30),
        ("tiny", ("iso", "images", "import"), 2**24),
    ):
        sandbox.add_storage(text(name), content=content, path=text(f"/var/lib/{name}"), total=total)
    sandbox.cluster.pools[text("tenant1")] = Pool(text("tenant1"), "pool only")
    for vmid, name, disk in ((200, "tmpl-small", "64M"), (201, "tmpl-big", "300M")):
        template = sandbox.add_template(
            replay.rename.number(vmid),
            storage=store,
            used=64 * 2**10 if disk == "64M" else 300 * 2**20,
            name=name,
            disk=disk,
            memory="128",
            kvm="0",
            tags="tmpl",
            description="template description",
            smbios1=f"base64=1,uuid=00000000-0000-0000-0000-000000000{vmid},serial=dG1wbA==",
            args="-kernel /var/lib/guest/vmlinuz -initrd /var/lib/guest/ird.gz -append console=ttyS0",
            **({"agent": "enabled=1"} if vmid == 200 else {}),
        )
        # Made by a create, which leaves a cloud-init drive's size out.
        drive = parse_drive(template.config["ide2"])
        del drive["size"]
        template.file.put("ide2", print_drive(drive))
    rename_configs(sandbox, replay)

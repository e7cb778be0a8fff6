"""What qemu-img says while it makes and copies disks, as it stands in task logs.

A client that shows progress reads these lines; a step is one per cent, but never less than four MiB
(pve-facts 6.2, clone-progress 7).
"""

from zone9.sandbox.state import Storage, Volume

STEP = 4 * 2**20
UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def file_of(storage: Storage, volume: Volume) -> str:
    """Answers where a directory storage keeps a volume."""
    parts = volume.volid.split(":", 1)[1].split("/")
    return f"{storage.path}/images/{'/'.join(parts[-2:])}"


def formatting(storage: Storage, volume: Volume) -> list[str]:
    """Is the line of `qemu-img create`; block storages have none."""
    if storage.kind != "dir":
        return []
    head = f"Formatting '{file_of(storage, volume)}', fmt={volume.format}"
    if volume.format != "qcow2":
        return [f"{head} size={volume.size} preallocation=off"]
    cluster, backing = "cluster_size=65536 extended_l2=off", ""
    if volume.parent:
        base = volume.parent.split(":", 1)[1]
        cluster = "cluster_size=131072 extended_l2=on"
        backing = f" backing_file=../{base} backing_fmt=qcow2"
    size = f"size={volume.size}{backing}"
    return [
        f"{head} {cluster} preallocation=metadata compression_type=zlib {size} lazy_refcounts=off refcount_bits=16"
    ]


def linked(volume: Volume) -> list[str]:
    """Is the line that a directory storage prints for a linked clone."""
    if not volume.parent or "/" not in volume.parent:
        return []
    base = volume.parent.split(":", 1)[1]
    name = volume.volid.rsplit("/", 1)[-1]
    shown = base.split("/")[-1]
    return [f"clone {base}: images, {name}, {volume.vmid} to {name} (base=../{base.split('/')[-2]}/{shown})"]


def mirrored(key: str, volume: Volume, *, agent: str) -> list[str]:
    """Is what a copy of a running VM's drive says."""
    drive = f"drive-{key}"
    lines = [
        f"drive mirror is starting for {drive}",
        f"{drive}: transferred {human(volume.size)} of {human(volume.size)} (100.00%) in 1s, ready",
        "all 'mirror' jobs are ready",
    ]
    if agent.removeprefix("enabled=").startswith("1"):
        lines.append("skipping guest filesystem freeze - agent configured but not running?")
    return [*lines, "suspend vm", f"{drive}: Cancelling block job", f"{drive}: Done.", "resume vm"]


def moved(key: str, volume: Volume) -> list[str]:
    """Is what moving a running VM's drive says."""
    drive = f"drive-{key}"
    return [
        f"drive mirror is starting for {drive}",
        f"{drive}: transferred {human(volume.size)} of {human(volume.size)} (100.00%) in 1s, ready",
        "all 'mirror' jobs are ready",
        f"{drive}: Completing block job...",
        f"{drive}: Completed successfully.",
        f"{drive}: mirror-job finished",
    ]


def human(size: int) -> str:
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.1f} B"


def transferred(done: int, total: int) -> str:
    share = 100 * done / total if total else 100.0
    return f"transferred {human(done)} of {human(total)} ({share:.2f}%)"


def out_of_space(done: int) -> str:
    return f"qemu-img: error while writing at byte {done}: No space left on device"


def steps(volume: Volume) -> list[int]:
    """Answers the amounts at which a copy reports; holes are passed over at once."""
    total = volume.size
    if volume.used < STEP:
        return [total]
    step = max(STEP, total // 100)
    # All of it, and once more as qemu-img ends.
    return [*range(step, total, step), total, total]

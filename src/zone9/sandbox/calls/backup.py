"""Backups: vzdump, its defaults, what an archive holds, and the cluster's backup jobs.

Jobs are only kept: the sandbox runs none by itself. An absent VM or storage is taken when a job is made, and
found out when it runs (recorded, pve-facts 6.2, backup).
"""

import uuid
from collections import Counter
from typing import Any

from zone9.sandbox.answers import BAD_PARAMETERS, PveError, refused
from zone9.sandbox.call import Call, serves
from zone9.sandbox.state import Vm
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import backup
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import ConfigFile

JOBS = "/cluster/backup"
VZDUMP = "/nodes/{node}/vzdump"
ROOT_ONLY = ("dumpdir", "script", "tmpdir")
TUNING = ("bwlimit", "ionice", "performance")
DEFAULTS: dict[str, Any] = {
    "all": 0, "bwlimit": 0, "compress": "0", "fleecing": {"enabled": 0}, "ionice": 7, "lockwait": 180,
    "mailnotification": "always", "mode": "snapshot", "notification-mode": "auto",
    "performance": {"max-workers": 16, "pbs-entries-max": 1048576}, "pigz": 0, "prune-backups": "keep-all=1", "quiet": 0,
    "remove": 1, "stdexcludes": 1, "stop": 0, "stopwait": 10, "zstd": 1,
}  # fmt: skip


@serves("POST", VZDUMP)
async def vzdump(call: Call) -> Any:
    """Starts a backup; whether the VM may be backed up is found out in the task."""
    for name in ROOT_ONLY:
        if name in call.params and not call.is_root:
            raise refused(**{name: "Only root may set this option."})
    if any(name in call.params for name in TUNING):
        call.must("/", "Sys.Modify")
    if not any(name in call.params for name in ("vmid", "all", "pool")):
        raise refused(vmid="property is missing")
    name = str(call.params.get("storage", "local"))
    if name in call.world.cluster.storages:
        call.must(f"/storage/{name}", "Datastore.AllocateSpace")
    vmids = _chosen(call, call.params)

    async def worker(task: Task) -> None:
        storage = backup.usable_storage(call, name)
        options = {
            "node": call.node,
            "storage": name,
            **({"mode": call.params["mode"]} if "mode" in call.raw else {}),
        }
        words = " ".join(f"--{key} {value}" for key, value in options.items())
        task.log(f"INFO: starting new backup job: vzdump {' '.join(map(str, vmids))} {words}")
        asked = {"compress": "0", **call.params}
        job = backup.Job(call, task, storage, str(call.params.get("mode", "snapshot")), asked=asked)
        for vmid in vmids:
            if not call.is_root and not call.may(f"/vms/{vmid}", "VM.Backup"):
                raise PveError(f"403 Permission check failed (/vms/{vmid}, VM.Backup)")
        await call.world.clock.sleep(call.world.durations.start_checks)
        for vmid in vmids:
            await backup.back_up(job, vmid)
        if job.failed:
            task.log("INFO: Backup job finished with errors")
            raise PveError("job errors")
        task.log("INFO: Backup job finished successfully")

    return call.fork("vzdump", vmids[0] if len(vmids) == 1 else "", worker)


def _chosen(call: Call, job: dict[str, Any]) -> list[int]:
    """Answers the VMs of a backup, in order."""
    cluster = call.world.cluster
    if job.get("vmid"):
        return [int(one) for one in text.split_list(str(job["vmid"]))]
    here = sorted(vmid for vmid, vm in cluster.vms.items() if vm.node == job.get("node", vm.node))
    if pool := job.get("pool"):
        members = cluster.pools[pool].vms if pool in cluster.pools else set()
        return [vmid for vmid in here if vmid in members]
    left_out = {int(one) for one in text.split_list(str(job.get("exclude", "")))}
    return [vmid for vmid in here if vmid not in left_out]


@serves("GET", f"{VZDUMP}/defaults")
async def defaults(call: Call) -> Any:
    name = str(call.params.get("storage", ""))
    if not name:
        return DEFAULTS
    storage = call.world.storage(name, call.node)
    return {**DEFAULTS, "storage": name, "dumpdir": f"{storage.path}/dump"}


@serves("GET", f"{VZDUMP}/extractconfig")
async def extract_config(call: Call) -> Any:
    """Shows the config in an archive, as text."""
    archive = backup.find_archive(call, str(call.params["volume"])).archive
    assert archive is not None
    file = ConfigFile()
    file.values = dict(archive.values)
    return file.render()


@serves("GET", "/nodes/{node}/storage/{storage}/prunebackups")
async def prunable(call: Call) -> Any:
    """Shows which archives a retention would keep: of each VM's, the newest `keep-last`."""
    storage = call.world.storage(str(call.params["storage"]), call.node)
    keep = text.parse_property_string(str(call.params.get("prune-backups", "keep-all=1"))).get("keep-last")
    found, seen = [], Counter[int | None]()
    for volume in sorted(storage.on(call.node).values(), key=lambda one: -one.ctime):
        if volume.archive is None or call.params.get("vmid") not in {None, volume.vmid}:
            continue
        seen[volume.vmid] += 1
        kept = keep is None or seen[volume.vmid] <= int(keep)
        mark = "protected" if volume.archive.protected else "keep" if kept else "remove"
        found.append(
            {"volid": volume.volid, "ctime": volume.ctime, "type": "qemu", "vmid": volume.vmid, "mark": mark}
        )
    return found


@serves("GET", JOBS)
async def jobs(call: Call) -> Any:
    coming = call.world.now(call.serving) // 86400 * 86400 + 86400
    return [{**_shown(job), "next-run": coming} for job in call.world.cluster.backup_jobs.values()]


@serves("POST", JOBS)
async def add_job(call: Call) -> Any:
    kept = call.world.cluster.backup_jobs
    name = str(call.params.get("id") or uuid.UUID(int=call.world.random.getrandbits(128), version=4))
    if "schedule" not in call.params and "starttime" not in call.params:
        raise refused(schedule="neither 'starttime' nor 'schedule' were set")
    _no_conflict(call.params)
    if name in kept:
        raise PveError(f"Job '{name}' already exists")
    kept[name] = {**call.params, "id": name}


@serves("GET", f"{JOBS}/{{id}}")
async def job(call: Call) -> Any:
    return _shown(_job(call))


@serves("PUT", f"{JOBS}/{{id}}")
async def change_job(call: Call) -> Any:
    found = _job(call)
    changed = {key: value for key, value in call.params.items() if key != "delete"}
    _no_conflict({**found, **changed})
    for key in text.split_list(str(call.params.get("delete", ""))):
        found.pop(key, None)
    found.update(changed)


@serves("DELETE", f"{JOBS}/{{id}}")
async def drop_job(call: Call) -> Any:
    del call.world.cluster.backup_jobs[str(_job(call)["id"])]


@serves("GET", f"{JOBS}/{{id}}/included_volumes")
async def included(call: Call) -> Any:
    """Shows which disks a job takes, as a tree."""
    vms = (call.world.cluster.vms.get(vmid) for vmid in _chosen(call, _job(call)))
    return {"children": [_tree(vm) for vm in vms if vm is not None]}


def _tree(vm: Vm) -> dict[str, Any]:
    leaves = []
    for key, line in sorted(vm.config.items()):
        if not text.is_disk(key) or text.is_cdrom(line):
            continue
        drive = text.parse_drive(line)
        taken = drive.get("backup", "1") != "0"
        why = f"backup={'yes' if taken else 'no'}"
        leaves.append(
            {
                "id": f"{vm.vmid}:{key}",
                "name": drive["file"],
                "included": int(taken),
                "reason": why,
                "leaf": 1,
            }
        )
    return {"id": vm.vmid, "type": "qemu", "name": vm.name, "leaf": 0, "children": leaves}


@serves("GET", "/cluster/backup-info/not-backed-up")
async def not_backed_up(call: Call) -> Any:
    cluster = call.world.cluster
    covered = {vmid for one in cluster.backup_jobs.values() for vmid in _chosen(call, one)}
    return [
        {"vmid": vmid, "name": vm.name, "type": "qemu"}
        for vmid, vm in sorted(cluster.vms.items())
        if vmid not in covered and call.may(f"/vms/{vmid}", "VM.Audit")
    ]


def _job(call: Call) -> dict[str, Any]:
    name = str(call.params["id"])
    found = call.world.cluster.backup_jobs.get(name)
    if found is None and call.asked.method != "GET":
        raise PveError(f"400 {BAD_PARAMETERS}\nid: No such job '{name}'")
    if found is None:
        raise refused(id=f"No such job '{name}'")
    return found


def _no_conflict(values: dict[str, Any]) -> None:
    chosen = [name for name in ("all", "vmid", "pool") if values.get(name)]
    if len(chosen) > 1:
        raise PveError(f"400 {BAD_PARAMETERS}\n{chosen[0]}: option conflicts with option '{chosen[1]}'")


def _shown(job: dict[str, Any]) -> dict[str, Any]:
    shown = {"enabled": 1, **job, "type": "vzdump"}
    shown["enabled"] = int(bool(shown["enabled"]))
    if pruning := job.get("prune-backups"):
        shown["prune-backups"] = text.parse_property_string(str(pruning))
    return shown

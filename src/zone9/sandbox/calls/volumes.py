"""Single volumes: sent, downloaded, shown, deleted (pve-storage, API2/Storage/Status.pm and Content.pm).

What is wrong with a name or a storage is refused at once, what is wrong with the bytes ends the task
(pve-facts 6.2, upload 3, 4 and 9).
"""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from zone9.sandbox import fetching, images, volids
from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.state import Storage, Volume
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import disks

STORAGE = "/nodes/{node}/storage/{storage}"
VOLUME = f"{STORAGE}/content/{{volume}}"
BLOCK = 4096


@serves("POST", f"{STORAGE}/upload")
async def upload(call: Call) -> Any:
    """Puts what the HTTP server has received into a storage; a file of that name is overwritten without a word."""
    world, content, temporary = call.world, str(call.params["content"]), str(call.params["tmpfilename"])
    storage = world.storage(str(call.params["storage"]), call.node)
    if storage.kind != "dir":
        raise PveError(f"can't upload to storage type '{storage.kind}'")
    filename, suffix = volids.checked_filename(content, str(call.params["filename"]))
    if content not in storage.content:
        raise PveError(f"storage '{storage.name}' does not support '{content}' content")
    path = world.files.uploads[temporary]
    target = f"{volids.directory(storage, content)}/{filename}"

    async def worker(task: Task) -> None:
        task.log(f"starting file import from: {temporary}")
        try:
            await world.clock.sleep(world.durations.upload)
            _verify(call, task, path)
            if content == "import":
                images.must_be_trusted(path, suffix, temporary, task.log)
            size = path.stat().st_size
            task.log(f"target node: {call.node}")
            task.log(f"target file: {target}")
            task.log(f"file size is: {size}")
            task.log(f"command: {_copy_command(call, temporary, target)}")
            volid = f"{storage.name}:{content}/{filename}"
            if _room(call, storage, volid) < size:
                world.files.remove(_forget(call, storage, volid))
                raise PveError(f"import failed: cp: error writing '{target}': No space left on device")
            _store(call, storage, Volume(volid, content, suffix, size, world.now(call.node)), path)
            task.log("finished file import successfully")
        finally:
            world.files.drop_upload(temporary)

    return call.fork("imgcopy", "", worker)


@serves("POST", f"{STORAGE}/download-url")
async def download_url(call: Call) -> Any:
    """Fetches a file into a storage; one that is there already is never replaced."""
    world, content, url = call.world, str(call.params["content"]), str(call.params["url"])
    storage = world.storage(str(call.params["storage"]), call.node)
    if storage.kind != "dir":
        raise PveError(f"can't upload to storage type '{storage.kind}', not a file based storage!")
    if content not in storage.content:
        raise PveError(f"storage '{storage.name}' is not configured for content-type '{content}'")
    filename, suffix = volids.checked_filename(content, str(call.params["filename"]))
    target = f"{volids.directory(storage, content)}/{filename}"
    volid = f"{storage.name}:{content}/{filename}"

    async def worker(task: Task) -> None:
        if call.params.get("compression"):
            kind = content if content != "iso" else "iso by the sandbox"
            raise PveError(f"decompression not supported for {kind}")
        task.log(f"downloading {url} to {target}")
        await world.clock.sleep(world.durations.download)
        there = storage.on(call.node).get(volid)
        if there is not None:
            _already(call, task, there, target)
            return
        shown = f"{target}.tmp_dwnl.{task.pid}"
        path = world.files.new(suffix)
        try:
            await fetching.Download(
                world.cluster,
                shown,
                _room(call, storage, volid),
                bool(call.params.get("verify-certificates", True)),
                lambda data: world.files.append(path, data),
                task.log,
                world.clock.now,
            ).run(url)
            _verify(call, task, path)
            try:
                if content == "import":
                    images.must_be_trusted(path, suffix, shown, task.log)
            except PveError as error:
                raise PveError(f"failed to verify file: {error.text}") from error
            volume = Volume(volid, content, suffix, path.stat().st_size, world.now(call.node))
            _store(call, storage, volume, path)
        finally:
            world.files.remove(path)
        task.log(f"download of '{url}' to '{target}' finished")

    return call.fork("download", filename, worker)


@serves("GET", "/nodes/{node}/query-url-metadata")
async def query_url_metadata(call: Call) -> Any:
    verify = bool(call.params.get("verify-certificates", True))
    return await fetching.metadata(call.world.cluster, str(call.params["url"]), verify=verify)


@serves("GET", f"{STORAGE}/import-metadata")
async def import_metadata(call: Call) -> Any:
    """Knows foreign appliances only, and takes a name without its storage only."""
    storage = call.world.storage(str(call.params["storage"]), call.node)
    name = volids.parse(storage, f"{storage.name}:{call.params['volume']}")
    volids.must_read(call, name)
    if name.content != "import":
        raise PveError(f"invalid content type '{name.content}'")
    if name.format not in {"ova", "ovf"}:
        raise PveError("invalid format")
    raise PveError("descriptions of appliances are not modelled by the sandbox", status=501)


@serves("GET", VOLUME)
async def info(call: Call) -> Any:
    """Shows one volume; an image's size is that of the disk inside, which a list of imports does not say."""
    storage, name = _named(call)
    volids.must_read(call, name)
    volume = storage.on(call.node).get(name.volid)
    if volume is None:
        raise PveError(f"volume_size_info on '{name.volid}' failed - no format")
    if not volume.size:
        raise PveError(f"volume '{name.volid}' has size zero")
    return {"format": name.format, "size": volume.size, "used": volume.used, "path": name.path}


@serves("PUT", VOLUME)
async def update(call: Call) -> Any:
    """Changes a backup's notes and protection; nothing else has any."""
    storage, name = _named(call)
    volids.must_read(call, name)
    if name.content != "backup" and "notes" in call.params:
        raise PveError("only backups can have notes")
    if name.content != "backup" and "protected" in call.params:
        raise PveError("only backups support attribute 'protected'")
    volume = storage.on(call.node).get(name.volid)
    if volume is None or volume.archive is None:
        raise PveError(f"volume '{name.volid}' does not exist")
    call.must(f"/storage/{storage.name}", "Datastore.AllocateSpace")
    changed = {key: call.params[key] for key in ("notes", "protected") if key in call.params}
    volume.archive = replace(volume.archive, **changed)


@serves("DELETE", VOLUME)
async def delete(call: Call) -> Any:
    """Removes a volume whoever uses it; only a base with clones is kept, and an absent one is no error."""
    storage, name = _named(call)
    if name.content == "backup" and name.owner is not None:
        call.must(f"/storage/{storage.name}", "Datastore.AllocateSpace")
    else:
        call.must(f"/storage/{storage.name}", "Datastore.Allocate")
    kept = storage.on(call.node).get(name.volid)
    if kept is not None and kept.archive is not None and kept.archive.protected:
        raise PveError(f"cannot remove protected volume '{name.volid}' on '{storage.name}'")

    async def worker(task: Task) -> None:
        await call.world.clock.sleep(call.world.durations.image_delete)
        if any(volume.parent == name.volid for volume in storage.on(call.node).values()):
            raise PveError(f"base volume '{name.volid.split(':', 1)[1]}' is still in use by linked clones")
        if not disks.free_volume(call.world, call.node, name.volid):
            task.log(f"disk image '{name.path}' does not exist")
        task.log(f"Removed volume '{name.volid}'")

    ident = storage.name if name.owner is None else f"{name.owner}@{storage.name}"
    upid = call.fork("imgdel", ident, worker)
    for _ in range(int(call.params.get("delay", 0))):
        await call.world.clock.sleep(1.0)
        task = call.world.tasks.by_upid[upid]
        if not task.running:
            if task.failed:
                raise PveError(str(task.exitstatus))
            return None
    return upid


# ---------------------------------------------------------------------- inside


def _named(call: Call) -> tuple[Storage, volids.Name]:
    volid = volids.volume_id(call.params.get("storage"), str(call.params["volume"]))
    storage = call.world.storage(volid.split(":", 1)[0], call.node)
    return storage, volids.parse(storage, volid)


def _digest(algorithm: str, path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _verify(call: Call, task: Task, path: Path) -> None:
    """Compares the checksum that was asked for, if one was."""
    wanted, algorithm = call.params.get("checksum"), call.params.get("checksum-algorithm")
    if not algorithm:
        return
    got = _digest(str(algorithm), path)
    if got != str(wanted).lower():
        task.log("calculating checksum...")
        raise PveError(f"checksum mismatch: got '{got}' != expect '{wanted}'")
    task.log("calculating checksum...OK, checksum verified")


def _already(call: Call, task: Task, there: Volume, target: str) -> None:
    """Is content with a file that is there when its checksum is right (pve-common, download_file_from_url)."""
    wanted, algorithm = call.params.get("checksum"), call.params.get("checksum-algorithm")
    if not algorithm or there.path is None:
        raise PveError(f"refusing to override existing file '{target}'")
    got = _digest(str(algorithm), there.path)
    if got != str(wanted).lower():
        task.log("calculating checksum of existing file...")
        raise PveError(f"checksum mismatch: got '{got}' != expect '{wanted}', aborting")
    task.log("calculating checksum of existing file...OK, got correct file already, no need to download")


def _copy_command(call: Call, source: str, target: str) -> str:
    """Is how the file goes to its place: the node that was asked copies, also to another node."""
    if call.node in {"localhost", call.serving}:
        return f"cp -- {source} {target}"
    node = call.world.node(call.node)
    known = f"/etc/pve/nodes/{node.name}/ssh_known_hosts"
    options = f"-o BatchMode=yes -o HostKeyAlias={node.name} -o UserKnownHostsFile={known}"
    return f"/usr/bin/scp {options} -o GlobalKnownHostsFile=none -p -- {source} [{node.address}]:{target}"


def _room(call: Call, storage: Storage, volid: str) -> int:
    """Answers how many bytes a file may have; the one that it replaces makes room."""
    old = storage.on(call.node).get(volid)
    return storage.total - storage.used(call.node) + (old.used if old else 0)


def _forget(call: Call, storage: Storage, volid: str) -> Path | None:
    old = storage.on(call.node).pop(volid, None)
    return old.path if old else None


def _store(call: Call, storage: Storage, volume: Volume, path: Path) -> None:
    """Puts a file under its volume id, in the place of what was there."""
    files = call.world.files
    files.remove(_forget(call, storage, volume.volid))
    volume.file_size = volume.size
    volume.used = -(-volume.size // BLOCK) * BLOCK
    volume.path = files.keep(path, volume.format)
    if volume.content == "import":
        volume.size = images.virtual_size(volume.path, volume.format)
    storage.on(call.node)[volume.volid] = volume

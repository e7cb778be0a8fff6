"""Uploads, downloads, single volumes, and disks that are imported from what was sent."""

import hashlib
from typing import Any

import aiohttp
import pytest
from sandbox_api import Api
from upload_api import TENANT, client, leftovers, send, sent, sizes, volume
from upload_forms import ISO, Part, ova, qcow2, web_server

from zone9.sandbox import Sandbox, multipart

TOO_SMALL = (
    "unable to create VM 333 - cannot import from 'vmstore:import/a.raw' - copy failed: command "
    "'/usr/bin/qemu-img convert -p -n -f raw -O raw /var/lib/vmstore/import/a.raw "
    "zeroinit:/var/lib/tiny/images/333/vm-333-disk-0.raw' failed: exit code 1"
)


async def test_6_2_upload_1_fields_come_in_one_order_and_the_http_server_itself_refuses_others(
    sandbox: Sandbox, tenant: Api
) -> None:
    digest = hashlib.sha256(ISO).hexdigest()
    algorithm, checksum = ("checksum-algorithm", "sha256"), ("checksum", digest)
    assert await sent(tenant, "iso", "a.iso", ISO, algorithm, checksum) == "OK"
    content: Part = ("content", "iso")
    file: Part = ("filename", "a.iso", ISO)
    for parts in (
        (content, checksum, algorithm, file),
        (algorithm, checksum, content, file),
        (content, ("nosuch", "1"), file),
        (content, ("tmpfilename", "/etc/passwd"), file),
    ):
        answer = await send(tenant, *parts)
        assert (answer.status, answer.reason, answer.text) == (400, "Bad Request", "")
    answer = await send(tenant, file, content)
    assert (answer.status, answer.errors) == (
        400,
        {"content": "property is missing and it is not optional"},
    )
    answer = await send(tenant, content, ("file", "a.iso", ISO))
    assert (answer.status, answer.text) == (500, f"{multipart.WRONG_NAME.format(name='file')}\n")
    assert [violation.why for violation in sandbox.violations[:1]] == ["Bad Request"]
    answer = await send(tenant, content)
    assert (answer.status, answer.reason) == (
        500,
        "upload failed at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 1370.",
    )
    for parts, errors in (
        ((content, checksum, file), {"checksum-algorithm": "missing property required by 'checksum'"}),
        ((content, algorithm, file), {"checksum": "missing property required by 'checksum-algorithm'"}),
    ):
        answer = await send(tenant, *parts)
        assert (answer.status, answer.errors) == (400, errors)


async def test_6_2_upload_2_what_is_no_form_gets_no_answer_and_who_may_not_upload_waits(
    sandbox: Sandbox, tenant: Api
) -> None:
    began = sandbox.clock.now()
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await tenant.ask("POST", "/nodes/pve1/storage/vmstore/upload", content="iso", filename="z.iso")
    assert 5.0 <= sandbox.clock.now() - began < 6.0
    nobody = await client(sandbox, "nobody", frozenset({"Datastore.Audit"}))
    began = sandbox.clock.now()
    answer = await send(nobody, ("content", "iso"), ("filename", "a.iso", ISO))
    assert (answer.status, answer.reason, answer.text) == (
        403,
        "Permission check failed (/storage/vmstore, Datastore.AllocateTemplate)",
        "",
    )
    assert 3.0 <= sandbox.clock.now() - began < 4.0
    assert leftovers(sandbox) == []
    await nobody.close()


async def test_6_2_upload_3_names_are_cleaned_and_the_same_name_overwrites(tenant: Api) -> None:
    for name in ("my ä file(1).iso", "../../etc/x.iso", "C:\\tmp\\y.iso", "d.img", "d.img"):
        assert await sent(tenant, "iso", name, ISO) == "OK"
    assert await sent(tenant, "iso", "x.iso", b"other") == "OK"
    assert await sizes(tenant, "iso") == {
        "vmstore:iso/my___file_1_.iso": len(ISO),
        "vmstore:iso/x.iso": 5,
        "vmstore:iso/y.iso": len(ISO),
        "vmstore:iso/d.img": len(ISO),
    }
    for content, name, errors in (
        ("iso", "d.bin", {"filename": "wrong file extension"}),
        ("vztmpl", "d.iso", {"filename": "wrong file extension"}),
        ("import", "up.img", {"filename": "invalid filename or wrong extension"}),
        ("import", "up.qcow2.gz", {"filename": "invalid filename or wrong extension"}),
    ):
        answer = await send(tenant, ("content", content), ("filename", name, ISO))
        assert (answer.status, answer.errors) == (400, errors)
    for content in ("snippets", "images", "backup"):
        answer = await send(tenant, ("content", content), ("filename", "a.iso", ISO))
        assert answer.errors["content"].endswith("in the enumeration 'iso, vztmpl, import'")
    for storage, reason in (
        ("small", "storage 'small' does not support 'import' content"),
        ("nosuch", "storage 'nosuch' does not exist"),
        ("local-lvm", "can't upload to storage type 'lvmthin'"),
    ):
        answer = await send(tenant, ("content", "import"), ("filename", "a.raw", ISO), storage=storage)
        assert (answer.status, answer.reason) == (500, reason)


async def test_6_2_upload_4_what_is_in_a_file_is_looked_at_in_the_task(tenant: Api) -> None:
    got, zeros = hashlib.sha512(ISO).hexdigest(), "0" * 128
    wrong = await sent(tenant, "iso", "a.iso", ISO, ("checksum-algorithm", "sha512"), ("checksum", zeros))
    assert wrong == f"checksum mismatch: got '{got}' != expect '{zeros}'"
    for name, data, ending in (
        ("a.qcow2", qcow2(backing=b"/etc/passwd"), "backing file not allowed for untrusted image '#'!"),
        ("a.qcow2", qcow2(incompatible=4), "#: 'data-file' references are not allowed!"),
        ("a.qcow2", bytes(70000), "qemu-img: Could not open '#': Image is not in qcow2 format"),
        ("a.qcow2", b"QFI", "qemu-img: Could not open '#': Image is not in qcow2 format"),
        ("a.vmdk", bytes(70000), "qemu-img: Could not open '#': Image not in VMDK format"),
        ("a.ova", ova("disk.vmdk"), "ova archive has no .ovf file inside"),
        ("a.ova", bytes(10), "command 'tar -t -f #' failed: exit code 2"),
        ("a.ova", ova("vm.ovf", "disk.vmdk"), "OK"),
        ("a.raw", qcow2(), "OK"),
        ("a.qcow2", qcow2(), "OK"),
    ):
        ended = await sent(tenant, "import", name, data)
        shown = ended.split("/var/tmp/pveupload-")
        assert (shown[0] + "#" + shown[1][32:] if len(shown) > 1 else ended) == ending
    vmdk = await sent(tenant, "import", "a.vmdk", b"KDMV".ljust(512, b"\0"))
    assert vmdk.startswith("Can't use an undefined value as an ARRAY reference")
    full = await sent(tenant, "import", "b.raw", bytes(2**19), storage="tiny")
    assert full == ("import failed: cp: error writing '/var/lib/tiny/import/b.raw': No space left on device")


async def test_6_2_upload_5_what_is_refused_after_it_was_received_stays_behind(
    sandbox: Sandbox, tenant: Api
) -> None:
    assert await sent(tenant, "iso", "a.iso", ISO) == "OK"
    assert await sent(tenant, "import", "a.qcow2", bytes(9)) != "OK"
    assert leftovers(sandbox) == []
    await send(tenant, ("content", "iso"), ("filename", "a.bin", ISO))
    await send(tenant, ("content", "images"), ("filename", "a.iso", b"123"))
    await send(tenant, ("content", "iso"))
    assert leftovers(sandbox) == [0, 3, len(ISO)]
    # A field that comes late is part of the file.
    await send(tenant, ("filename", "a.iso", b"123"), ("content", "iso"))
    assert leftovers(sandbox)[2] > 3 + len("content")


async def test_6_2_upload_6_a_volume_says_how_large_the_disk_in_it_is(tenant: Api) -> None:
    assert await sent(tenant, "import", "a.qcow2", qcow2()) == "OK"
    assert await sent(tenant, "iso", "empty.iso", b"") == "OK"
    assert await sizes(tenant, "import") == {"vmstore:import/a.qcow2": len(qcow2())}
    shown = await volume(tenant, "GET", "vmstore:import/a.qcow2")
    assert shown.data == {
        "path": "/var/lib/vmstore/import/a.qcow2",
        "format": "qcow2",
        "size": 48 * 2**20,
        "used": 200704,
    }
    short = await tenant.ask("GET", "/nodes/pve1/storage/vmstore/content/import%2Fa.qcow2")
    assert short.data == shown.data
    for volid, reason in (
        ("vmstore:iso/empty.iso", "volume 'vmstore:iso/empty.iso' has size zero"),
        ("vmstore:iso/no.iso", "volume_size_info on 'vmstore:iso/no.iso' failed - no format"),
        ("vmstore:../etc/passwd", "unable to parse directory volume name '../etc/passwd'"),
    ):
        assert (await volume(tenant, "GET", volid)).reason == reason
    path = "/nodes/pve1/storage/vmstore/import-metadata"
    for name, reason in (
        ("import/a.qcow2", "invalid format"),
        ("iso/a.iso", "invalid content type 'iso'"),
        (
            "vmstore:import/a.qcow2",
            "unable to parse directory volume name 'vmstore:import/a.qcow2'",
        ),
    ):
        answer = await tenant.ask("GET", path, volume=name)
        assert (answer.status, answer.reason) == (500, reason)
    notes = await volume(tenant, "PUT", "vmstore:iso/empty.iso", notes="n")
    assert (notes.status, notes.reason) == (500, "only backups can have notes")


async def test_6_2_upload_7_a_disk_is_imported_from_what_was_sent(sandbox: Sandbox, tenant: Api) -> None:
    assert await sent(tenant, "import", "a.qcow2", qcow2()) == "OK"
    assert await sent(tenant, "import", "a.raw", ISO) == "OK"
    assert await sent(tenant, "iso", "a.iso", ISO) == "OK"
    for line, errors in (
        (
            "vmstore:0,import-from=vmstore:iso/a.iso",
            "has wrong type 'iso' - needs to be 'images' or 'import'",
        ),
        (
            "vmstore:1,import-from=vmstore:import/a.raw",
            "requires special syntax - use <storage ID>:0,import-from=<source>",
        ),
    ):
        answer = await tenant.ask("POST", "/nodes/pve1/qemu", vmid=333, scsi0=line)
        assert (answer.status, answer.errors["scsi0"][-len(errors) :]) == (400, errors)
    for line, ending in (
        (
            "vmstore:0,import-from=vmstore:import/no.qcow2",
            "unable to create VM 333 - failed to stat '/var/lib/vmstore/import/no.qcow2'",
        ),
        ("tiny:0,import-from=vmstore:import/a.raw,format=raw", TOO_SMALL),
    ):
        sandbox.cluster.storages["tiny"].total = 4096
        assert await tenant.task("POST", "/nodes/pve1/qemu", vmid=333, scsi0=line) == ending
        assert 333 not in sandbox.vms
    assert sandbox.cluster.storages["tiny"].on("pve1") == {}
    made = {"scsi0": "vmstore:0,import-from=vmstore:import/a.raw", "scsi1": "vmstore:1"}
    assert await tenant.task("POST", "/nodes/pve1/qemu", vmid=334, **made) == "OK"
    assert await tenant.task(
        "POST", "/nodes/pve1/qemu", vmid=335, scsi0="vmstore:0,import-from=vmstore:import/a.qcow2"
    ) == "OK"  # fmt: skip
    config = await tenant.config(334)
    assert config["scsi0"] == "vmstore:334/vm-334-disk-0.raw,size=75K"
    assert config["scsi1"] == "vmstore:334/vm-334-disk-1.raw,size=1G"
    assert (await tenant.config(335))["scsi0"] == "vmstore:335/vm-335-disk-0.qcow2,size=48M"


async def test_6_2_upload_8_deleting_needs_allocate_and_asks_nobody_else(
    sandbox: Sandbox, tenant: Api, keeper: Api
) -> None:
    for name in ("a.iso", "b.iso"):
        assert await sent(tenant, "iso", name, ISO) == "OK"
    denied = await volume(tenant, "DELETE", "vmstore:iso/a.iso")
    assert (denied.status, denied.reason) == (
        403,
        "Permission check failed (/storage/vmstore, Datastore.Allocate)",
    )
    sandbox.add_vm(101, "pve1", disk="1G", ide0="vmstore:iso/a.iso,media=cdrom")
    # A linked clone, so that the template's image is a base in use.
    wide = await client(sandbox, "wide", TENANT | {"VM.Clone"})
    assert await wide.task("POST", "/nodes/pve1/qemu/9000/clone", newid=102) == "OK"
    await wide.close()
    base = sandbox.vms[9000].config["scsi0"].split(",")[0]
    for volid, ident, ending in (
        ("vmstore:iso/a.iso", "vmstore", "OK"),
        ("vmstore:101/vm-101-disk-0.qcow2", "101@vmstore", "OK"),
        ("vmstore:iso/no.iso", "vmstore", "OK"),
        (base, "9000@vmstore", f"base volume '{base.split(':')[1]}' is still in use by linked clones"),
    ):
        answer = await volume(keeper, "DELETE", volid)
        status = await keeper.status(answer.data)
        assert (status["type"], status["id"], status["exitstatus"]) == ("imgdel", ident, ending)
        if volid.endswith("no.iso"):
            assert (await keeper.log(answer.data))[:2] == [
                "disk image '/var/lib/vmstore/template/iso/no.iso' does not exist",
                "Removed volume 'vmstore:iso/no.iso'",
            ]
    assert (await tenant.config(101))["scsi0"].startswith("vmstore:101/vm-101-disk-0")
    assert await tenant.task("POST", "/nodes/pve1/qemu/101/status/start") == (
        "volume 'vmstore:iso/a.iso' does not exist"
    )
    waited = await volume(keeper, "DELETE", "vmstore:iso/b.iso", delay=5)
    assert (waited.status, waited.data) == (200, None)
    assert await sizes(keeper, "iso") == {}


async def test_6_2_upload_9_a_url_is_fetched_from_this_machine_alone(
    sandbox: Sandbox, tenant: Api, keeper: Api
) -> None:
    address = sandbox.cluster.nodes["pve1"].address
    files = {"a.qcow2": qcow2(), "evil.qcow2": qcow2(backing=b"x"), "big.raw": bytes(3 * 2**20)}
    async with web_server(files) as port:
        here = f"http://{address}:{port}"

        async def download(name: str, url: str, storage: str = "vmstore", **more: str) -> Any:
            asked = {"content": "import", "filename": name, "url": url, **more}
            return await keeper.task("POST", f"/nodes/pve1/storage/{storage}/download-url", **asked)

        path = "/nodes/pve1/storage/vmstore/download-url"
        asked = {"content": "import", "filename": "a.qcow2", "url": f"{here}/a.qcow2"}
        denied = await tenant.ask("POST", path, **asked)
        assert (denied.status, denied.reason) == (403, "Permission check failed")
        scheme = await keeper.ask("POST", path, **{**asked, "url": "file:///etc/passwd"})
        assert (scheme.status, scheme.errors) == (400, {"url": "value does not match the regex pattern"})
        assert await download("n.raw", "https://example.invalid/n.raw") == (
            "download failed: wget: unable to resolve host address 'example.invalid'"
        )
        assert await download("n.raw", "http://192.0.2.1/n.raw") == (
            "download failed: Connecting to 192.0.2.1:80... failed: Network is unreachable."
        )
        assert await download("n.raw", f"http://{address}:1/n.raw") == (
            f"download failed: Connecting to {address}:1... failed: Connection refused."
        )
        assert await download("n.raw", f"{here}/nosuch") == "download failed: exit code 8"
        # A redirect leads no further than a URL does.
        assert await download("n.raw", f"{here}/to/example.invalid/n.raw") == (
            "download failed: wget: unable to resolve host address 'example.invalid'"
        )
        evil = await download("n.qcow2", f"{here}/evil.qcow2")
        assert evil.startswith("failed to verify file: backing file not allowed for untrusted image '")
        full = await download("n.raw", f"{here}/big.raw", "tiny")
        assert full.startswith("download failed: Cannot write to '/var/lib/tiny/import/n.raw.tmp_dwnl.")
        assert full.endswith("' (No space left on device).")
        digest = hashlib.md5(files["a.qcow2"], usedforsecurity=False).hexdigest()
        more = {"checksum": "0" * 32, "checksum-algorithm": "md5"}
        assert await download("a.qcow2", f"{here}/a.qcow2", **more) == (
            f"checksum mismatch: got '{digest}' != expect '{'0' * 32}'"
        )
        assert await sizes(keeper, "import") == {}
        more["checksum"] = digest
        assert await download("a.qcow2", f"{here}/a.qcow2", **more) == "OK"
        assert await download("a.qcow2", f"{here}/a.qcow2", **more) == "OK"
        assert await download("a.qcow2", f"{here}/a.qcow2") == (
            "refusing to override existing file '/var/lib/vmstore/import/a.qcow2'"
        )
        assert await download("b.raw", f"http://127.0.0.1:{port}/to/127.0.0.1:{port}/big.raw") == "OK"
        assert await sizes(keeper, "import") == {
            "vmstore:import/a.qcow2": len(files["a.qcow2"]),
            "vmstore:import/b.raw": 3 * 2**20,
        }
        query = "/nodes/pve1/query-url-metadata"
        assert await keeper.ok("GET", query, url=f"{here}/a.qcow2") == {
            "filename": "a.qcow2",
            "size": len(files["a.qcow2"]),
            "mimetype": "application/octet-stream",
        }
        missing = await keeper.ask("GET", query, url="http://example.invalid/a.qcow2")
        assert missing.status == 500
        assert missing.reason.startswith("invalid server response: '500 Can't connect to example.invalid:80 ")
    # Nothing of what failed is kept: the two that came, and no more.
    assert len(sandbox.world.files) == 2

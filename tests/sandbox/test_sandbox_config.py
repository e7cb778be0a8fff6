"""Config calls: types, normalisation, digest, pending values and who may change what (pve-facts 6, 6.2)."""

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox

VM = "/nodes/pve1/qemu/101"
UUID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(autouse=True)
def _vm(sandbox: Sandbox) -> None:
    sandbox.add_vm(101, name="web1", disk="64M", cloudinit=True)


async def test_6_8_smbios1_without_uuid_is_stored_without_uuid(api: Api) -> None:
    await api.ok("PUT", f"{VM}/config", smbios1="base64=1,serial=ejk6VA==")
    assert (await api.config(101))["smbios1"] == "base64=1,serial=ejk6VA=="


async def test_6_8_no_uuid_is_made_at_create_when_smbios1_is_given(api: Api) -> None:
    assert await api.task("POST", "/nodes/pve1/qemu", vmid=300, smbios1="base64=1,serial=ejk6VA==") == "OK"
    assert "uuid" not in (await api.config(300))["smbios1"]
    assert await api.task("POST", "/nodes/pve1/qemu", vmid=301) == "OK"
    assert (await api.config(301))["smbios1"].startswith("uuid=")


@pytest.mark.parametrize(
    "value",
    [
        "serial=a,b",
        "base64=1,serial=not base64!",
        "serial=z9:token",
        "uuid=123",
        "bogus=1",
        "base64=1,serial=",
        "",
        "a",
    ],
)
async def test_6_8_smbios1_is_checked_by_regex(api: Api, sandbox: Sandbox, value: str) -> None:
    answer = await api.ask("PUT", f"{VM}/config", smbios1=value)
    assert answer.status == 400
    assert "smbios1" in answer.errors
    assert len(sandbox.violations) == 1


async def test_6_2_identity_1_smbios1_may_have_512_characters(api: Api) -> None:
    head = f"base64=1,uuid={UUID},serial="
    await api.ok("PUT", f"{VM}/config", smbios1=head + "A" * (512 - len(head)))
    answer = await api.ask("PUT", f"{VM}/config", smbios1=head + "A" * (513 - len(head)))
    assert answer.errors["smbios1"] == "value may only be 512 characters long"


async def test_6_10_running_values_pending_values_and_their_merge(api: Api) -> None:
    await api.task("POST", f"{VM}/status/start")
    await api.ok("PUT", f"{VM}/config", cores=2, memory=1024)
    assert (await api.config(101))["cores"] == 2
    assert (await api.config(101, current=1))["cores"] == 1
    pending = await api.pending(101)
    assert pending["cores"] == {"key": "cores", "value": 1, "pending": 2}
    assert pending["memory"] == {"key": "memory", "value": "512", "pending": "1024"}


async def test_6_10_a_pending_delete_is_left_out_of_the_plain_config(api: Api) -> None:
    await api.task("POST", f"{VM}/status/start")
    await api.ok("PUT", f"{VM}/config", delete="cores")
    assert "cores" not in await api.config(101)
    assert (await api.pending(101))["cores"] == {"key": "cores", "value": 1, "delete": 1}
    await api.ok("PUT", f"{VM}/config", revert="cores")
    assert (await api.config(101))["cores"] == 1


async def test_6_10_revert_of_what_is_not_pending_is_fine(api: Api) -> None:
    await api.ok("PUT", f"{VM}/config", revert="sockets")


async def test_6_10_types_of_values(api: Api) -> None:
    await api.ok(
        "PUT", f"{VM}/config", cores=3, onboot=1, cpulimit="1.5", memory=2048, cipassword="hush", balloon=0
    )
    config = await api.config(101)
    assert (config["cores"], config["onboot"], config["balloon"]) == (3, 1, 0)
    assert (config["cpulimit"], config["memory"], config["cipassword"]) == ("1.5", "2048", "**********")


async def test_6_11_a_password_is_hashed_by_an_update_and_left_in_clear_by_a_create(
    api: Api, sandbox: Sandbox
) -> None:
    await api.task("POST", "/nodes/pve1/qemu", vmid=300, cipassword="hush")
    assert sandbox.vms[300].config["cipassword"] == "hush"
    await api.ok("PUT", "/nodes/pve1/qemu/300/config", cipassword="hush")
    assert sandbox.vms[300].config["cipassword"].startswith("$5$")


async def test_6_12_a_nic_without_mac_gets_a_new_one(api: Api) -> None:
    before = (await api.config(101))["net0"]
    await api.ok("PUT", f"{VM}/config", net0="virtio,bridge=vmbr0")
    after = (await api.config(101))["net0"]
    assert after != before
    assert after.startswith("virtio=BC:24:11:")


async def test_6_12_a_duplicate_mac_is_accepted(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_vm(102, net0="virtio=02:00:00:00:00:07,bridge=vmbr0")
    await api.ok("PUT", f"{VM}/config", net0="virtio=02:00:00:00:00:07,bridge=vmbr0")


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("Zed;alpha;alpha", "alpha;zed"), ("a b,c", "a;b;c"), ("A;a;b;B", "a;b"), ("x+y", "x+y"), ("", " ")],
)
async def test_6_13_tags(api: Api, sent: str, stored: str) -> None:
    await api.ok("PUT", f"{VM}/config", tags=sent)
    assert (await api.config(101))["tags"] == stored


async def test_6_13_tag_style_keeps_them_as_sent(api: Api, sandbox: Sandbox) -> None:
    sandbox.cluster.options["tag-style"] = "case-sensitive=1,ordering=config"
    await api.ok("PUT", f"{VM}/config", tags="Zed;alpha;Alpha")
    assert (await api.config(101))["tags"] == "Zed;alpha;Alpha"


async def test_6_6_registered_tags_need_a_right(api: Api, sandbox: Sandbox) -> None:
    sandbox.cluster.options["registered-tags"] = "zone9"
    answer = await api.ask("PUT", f"{VM}/config", tags="zone9;x")
    assert (answer.status, answer.reason) == (
        403,
        "Permission check failed (/, Sys.Modify for modifying tag 'zone9')",
    )


async def test_6_14_description(api: Api) -> None:
    await api.ok("PUT", f"{VM}/config", description="a\r\nb: ä 100%\n\n")
    assert (await api.config(101))["description"] == "a\r\nb: ä 100%"
    await api.ok("PUT", f"{VM}/config", description="€" * 8192)
    answer = await api.ask("PUT", f"{VM}/config", description="x" * 8193)
    assert answer.errors == {"description": "value may only be 8192 characters long"}
    await api.ok("PUT", f"{VM}/config", description="")
    assert "description" not in await api.config(101)


async def test_6_14_refusals_of_the_parameters_alone(api: Api) -> None:
    assert (await api.ask("PUT", f"{VM}/config")).reason == "no options specified"
    both = await api.ask("PUT", f"{VM}/config", delete="cores", cores=2)
    assert both.errors == {"delete": "you can't use '-cores' and -delete cores' at the same time"}
    unknown = await api.ask("PUT", f"{VM}/config", delete="nosuch")
    assert unknown.errors == {"delete": "unknown option 'nosuch'"}


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_6_15_a_stale_digest_is_refused_at_once(api: Api, method: str) -> None:
    answer = await api.ask(method, f"{VM}/config", name="x", digest="0" * 40)
    assert (answer.status, answer.reason) == (500, "checksum mismatch (file change by other user?)")


async def test_1_3_2_the_digest_is_over_the_whole_file(api: Api, sandbox: Sandbox) -> None:
    digests = {(await api.config(101))["digest"]}
    await api.task("POST", f"{VM}/status/start")
    await api.ok("PUT", f"{VM}/config", cores=2)
    digests.add((await api.config(101))["digest"])
    sandbox.operator.set_lock(101, "backup")
    digests.add((await api.config(101))["digest"])
    assert len(digests) == 3


async def test_6_2_identity_5_a_description_cannot_inject_lines(sandbox: Sandbox, api: Api) -> None:
    await api.ok("PUT", f"{VM}/config", description="lock: clone")
    assert sandbox.vms[101].file.render().startswith("#lock%3A clone\n")
    assert "lock" not in await api.config(101)


@pytest.mark.parametrize("key", ["args", "hookscript", "vmgenid", "affinity"])
async def test_6_6_root_only_keys_are_500(api: Api, key: str) -> None:
    value = {"vmgenid": "0", "affinity": "0", "hookscript": "local:snippets/x"}.get(key, "x")
    answer = await api.ask("PUT", f"{VM}/config", **{key: value})
    assert (answer.status, answer.reason) == (500, f"only root can set '{key}' config")


async def test_6_6_skiplock_is_400_and_startup_403(api: Api) -> None:
    skip = await api.ask("PUT", f"{VM}/config", skiplock=1, name="x")
    assert skip.errors == {"skiplock": "Only root may use this option."}
    startup = await api.ask("PUT", f"{VM}/config", startup="order=1")
    assert (startup.status, startup.reason) == (403, "Permission check failed (/, Sys.Modify)")


async def test_6_7_an_unencoded_equals_sign_truncates(api: Api) -> None:
    answer = await api.ask("PUT", f"{VM}/config", raw="net0=virtio,bridge=vmbr0")
    assert answer.status == 400
    assert "duplicate key" in answer.errors["net0"]


async def test_6_7_json_bodies_work_and_yes_is_no_boolean(api: Api) -> None:
    headers = {"Content-Type": "application/json"}
    assert (
        await api.ask("PUT", f"{VM}/config", raw='{"cores":3,"onboot":true}', headers=headers)
    ).status == 200
    assert (await api.config(101))["cores"] == 3
    answer = await api.ask("PUT", f"{VM}/config", onboot="yes")
    assert answer.errors == {"onboot": "type check ('boolean') failed - got 'yes'"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cpu", "nosuch"),
        ("cpu", "custom-nosuch"),
        ("cores", "0"),
        ("hotplug", "bogus"),
        ("memory", "15"),
        ("corez", "1"),
        ("net0", "virtio,bridge=vmbr0,speed=9"),
        ("boot", "order=foo0"),
        ("name", "under_score"),
        ("scsi31", "vmstore:1"),
    ],
)
async def test_bad_values_are_refused_and_recorded(api: Api, sandbox: Sandbox, key: str, value: str) -> None:
    answer = await api.ask("PUT", f"{VM}/config", **{key: value})
    assert (answer.status, answer.reason) == (400, "Parameter verification failed.")
    assert list(answer.errors) == [key]
    assert [violation.errors for violation in sandbox.violations] == [answer.errors]


async def test_6_2_memory_cpu_2_what_is_live_and_what_waits(api: Api) -> None:
    await api.task("POST", f"{VM}/status/start")
    live = {
        "name": "n",
        "tags": "t",
        "description": "d",
        "onboot": 1,
        "protection": 1,
        "balloon": 64,
        "tablet": 0,
    }
    live |= {"ciuser": "u", "cipassword": "p", "searchdomain": "x.invalid", "ipconfig0": "ip=dhcp"}
    waits = {"cores": 2, "memory": 1024, "vcpus": 1, "numa": 1, "agent": 1, "ostype": "other", "vga": "std"}
    waits |= {"bios": "ovmf", "machine": "q35", "scsihw": "virtio-scsi-pci", "boot": "order=net0", "kvm": 0}
    waits |= {"acpi": 0, "cpu": "max", "serial1": "socket", "localtime": 1, "smbios1": f"uuid={UUID}"}
    await api.ok("PUT", f"{VM}/config", **live, **waits)
    pending = {key for key, row in (await api.pending(101)).items() if "pending" in row}
    assert pending == set(waits)


async def test_6_2_memory_cpu_3_stop_applies_what_waits_and_reset_does_not(api: Api) -> None:
    await api.task("POST", f"{VM}/status/start")
    await api.ok("PUT", f"{VM}/config", cores=2)
    await api.task("POST", f"{VM}/status/reset")
    assert "pending" in (await api.pending(101))["cores"]
    await api.task("POST", f"{VM}/status/stop")
    assert (await api.pending(101))["cores"] == {"key": "cores", "value": 2}


async def test_6_2_nics_2_a_hotplug_problem_is_a_partial_success(api: Api, sandbox: Sandbox) -> None:
    await api.task("POST", f"{VM}/status/start")
    answer = await api.ask("PUT", f"{VM}/config", net1="virtio,bridge=vmbr77", name="later", cores=2)
    assert answer.errors == {"net1": "hotplug problem - interface vmbr77 does not exist\n"}
    shown = await api.config(101)
    assert (shown["name"], shown["cores"]) == ("later", 2)
    assert "vmbr77" in shown["net1"]
    assert "net1" not in await api.config(101, current=1)
    await api.ok("PUT", f"{VM}/config", revert="net1")
    assert "net1" not in await api.config(101)


async def test_6_2_nics_2_the_same_by_post_fails_in_the_task(api: Api) -> None:
    await api.task("POST", f"{VM}/status/start")
    exit_text = await api.task("POST", f"{VM}/config", net1="virtio,bridge=vmbr77")
    assert exit_text == (
        "400 Parameter verification failed. net1: hotplug problem - interface vmbr77 does not exist"
    )


async def test_6_2_identity_2_the_log_carries_the_whole_change(api: Api) -> None:
    await api.ok(
        "PUT", f"{VM}/config", name="srv-x", smbios1=f"base64=1,uuid={UUID},serial=ejk=", cipassword="hush"
    )
    messages = [row["msg"] for row in await api.ok("GET", "/cluster/log")]
    assert messages[0] == (
        f"update VM 101: -cipassword <hidden> -name srv-x -smbios1 base64=1,uuid={UUID},serial=ejk="
    )


async def test_6_2_disks_1_a_disk_line_sent_twice_makes_two(api: Api) -> None:
    await api.ok("PUT", f"{VM}/config", scsi1="vmstore:1")
    first = (await api.config(101))["scsi1"].split(",")[0]
    await api.ok("PUT", f"{VM}/config", scsi1="vmstore:1")
    config = await api.config(101)
    assert config["unused0"] == first
    assert config["scsi1"].split(",")[0] != first


async def test_6_2_disks_4_detached_unused_removed(api: Api, sandbox: Sandbox) -> None:
    await api.ok("PUT", f"{VM}/config", scsi1="vmstore:1,format=qcow2")
    volid = (await api.config(101))["scsi1"].split(",")[0]
    await api.ok("PUT", f"{VM}/config", delete="scsi1")
    assert (await api.config(101))["unused0"] == volid
    await api.ok("PUT", f"{VM}/config", delete="unused0")
    assert sandbox.cluster.volume("pve1", volid) is None
    await api.ok("PUT", f"{VM}/config", delete="ide2")
    assert not [key for key in await api.config(101) if key.startswith("unused")]


async def test_6_2_disks_5_a_booting_guest_lets_no_device_go(api: Api, sandbox: Sandbox) -> None:
    await api.task("POST", f"{VM}/status/start")
    await api.ok("PUT", f"{VM}/config", scsi1="vmstore:1")
    sandbox.vms[101].busy = True
    answer = await api.ask("PUT", f"{VM}/config", delete="scsi1")
    assert answer.errors == {
        "scsi1": "hotplug problem - error on hot-unplugging device 'scsi1' - still busy in guest?\n"
    }
    assert (await api.pending(101))["scsi1"]["delete"] == 1


async def test_6_16_resize(api: Api, sandbox: Sandbox) -> None:
    assert await api.task("PUT", f"{VM}/resize", disk="scsi0", size="+1G") == "OK"
    assert (await api.config(101))["scsi0"].endswith("size=1088M")
    assert (
        await api.task("PUT", f"{VM}/resize", disk="scsi0", size="64M") == "shrinking disks is not supported"
    )
    assert await api.task("PUT", f"{VM}/resize", disk="scsi9", size="+1G") == "disk 'scsi9' does not exist"
    stale = await api.task("PUT", f"{VM}/resize", disk="scsi0", size="+1G", digest="0" * 40)
    assert stale == "checksum mismatch (file change by other user?)"
    assert await api.task("PUT", f"{VM}/resize", disk="ide2", size="+1G") == "you can't resize a cdrom"


async def test_6_17_import_from(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_import("base.qcow2", 64 * 2**20)
    source = "vmstore:0,import-from=vmstore:import/base.qcow2,format=qcow2"
    assert await api.task("POST", "/nodes/pve1/qemu", vmid=300, scsi0=source) == "OK"
    assert (await api.config(300))["scsi0"] == "vmstore:300/vm-300-disk-0.qcow2,size=64M"
    absent = source.replace("base", "nosuch")
    assert (await api.task("POST", "/nodes/pve1/qemu", vmid=301, scsi0=absent)).startswith(
        "unable to create VM 301 - "
    )
    assert 301 not in sandbox.vms


async def test_6_17_an_absent_bridge_is_an_error_at_start_only(api: Api) -> None:
    assert await api.task("POST", "/nodes/pve1/qemu", vmid=300, net0="virtio,bridge=vmbr77") == "OK"
    assert await api.task("POST", "/nodes/pve1/qemu/300/status/start") == "bridge 'vmbr77' does not exist"


async def test_6_19_cloudinit_shows_what_the_drive_does_not_have_yet(api: Api) -> None:
    await api.ok("PUT", f"{VM}/config", ciuser="old")
    await api.ok("PUT", f"{VM}/cloudinit")
    await api.ok("PUT", f"{VM}/config", ciuser="new", ipconfig0="ip=10.0.0.2/24,gw=10.0.0.1")
    rows = {row["key"]: row for row in await api.ok("GET", f"{VM}/cloudinit")}
    assert rows["ciuser"] == {"key": "ciuser", "value": "old", "pending": "new"}
    await api.ok("PUT", f"{VM}/cloudinit")
    rows = {row["key"]: row for row in await api.ok("GET", f"{VM}/cloudinit")}
    assert rows["ciuser"] == {"key": "ciuser", "value": "new"}
    network = await api.ok("GET", f"{VM}/cloudinit/dump", type="network")
    assert "address: '10.0.0.2'" in network

"""Who did what: from rows of the cluster log and from task ids, without any value."""

import pytest

from zone9.pve import acts
from zone9.pve.tasks import Upid


def row(uid: int, msg: str, *, node: str = "pve1", user: str = "root@pam") -> dict[str, object]:
    return {
        "uid": str(uid),
        "id": f"{uid}:{node}",
        "node": node,
        "user": user,
        "time": 1796099241,
        "msg": msg,
    }


@pytest.mark.parametrize(
    ("msg", "vmid", "touched"),
    [
        ("update VM 101: -cores 4", 101, {"cores"}),
        ("update VM 113: -net0 virtio=02:00:00:00:00:07,bridge=vmbr0", 113, {"net0"}),
        (
            "update VM 102: -ipconfig0 ip=10.99.0.51/24 -net0 virtio=02:00:00:00:00:07,bridge=vmbr0 -smbios1 base64=1",
            102,
            {"ipconfig0", "net0", "smbios1"},
        ),
        ("update VM 102: -delete tags,net1 -name web", 102, {"tags", "net1", "name"}),
        ("update VM 102: -revert memory", 102, {"memory"}),
        ("update VM 102: resize --disk scsi0 --size +1G", 102, {"resize", "disk"}),
        ("update CT 105: -hostname box", 105, {"hostname"}),
        ("update VM 102: -cipassword -verysecret -ciuser bob", 102, {"cipassword", "ciuser"}),
        ("update VM 102: something new", 102, set()),
    ],
)
def test_config_writes_of_the_log(msg: str, vmid: int, touched: set[str]) -> None:
    [act] = acts.of_log([row(7, msg)])
    assert (act.vmid, act.who, act.touched, act.uid) == (vmid, "root@pam", touched, "log:7:pve1")
    assert "secret" not in act.what


@pytest.mark.parametrize(
    "msg",
    [
        "starting task UPID:pve1:000003CB:000764B8:6B0E4CA4:qmclone:102:z9@pve!ctl:",
        "end task UPID:pve1:000003CB:000764B8:6B0E4CA4:qmclone:102:z9@pve!ctl: OK",
        "successful auth for user 'root@pam'",
        "update VM x: -cores 4",
        "",
    ],
)
def test_other_rows_are_no_config_writes(msg: str) -> None:
    assert acts.of_log([row(7, msg)]) == []


@pytest.mark.parametrize(
    ("kind", "id_", "about"),
    [("qmstop", "101", 101), ("qmdestroy", "101", 101), ("vzstart", "105", 105), ("resize", "101", 101),
     ("aptupdate", "", None), ("vzdump", "", None), ("imgcopy", "101", None)],
)  # fmt: skip
def test_tasks_on_guests(kind: str, id_: str, about: int | None) -> None:
    upid = Upid.parse(f"UPID:pve1:000003CB:000764B8:6B0E4CA4:{kind}:{id_}:root@pam:")
    act = acts.of_task(upid)
    assert (None if act is None else (act.vmid, act.what)) == (None if about is None else (about, kind))


@pytest.mark.parametrize(
    ("numbers", "seen", "gap"),
    [
        ([12, 11, 10], {}, False),
        ([12, 11, 10], {"pve1": 10}, False),
        ([12, 11, 10], {"pve1": 9}, False),
        ([12, 11, 10], {"pve1": 8}, True),
        ([12, 11, 10], {"pve1": 12}, False),
        ([3, 2, 1], {"pve1": 12}, True),
        ([], {"pve1": 12}, False),
        ([12, 11, 10], {"pve2": 3}, False),
    ],
)
def test_gaps_of_the_log(numbers: list[int], seen: dict[str, int], *, gap: bool) -> None:
    rows = [row(number, "x") for number in numbers]
    assert acts.has_gap(rows, seen) is gap
    if numbers:
        assert acts.last_seen(rows, seen) == {**seen, "pve1": numbers[0]}


def test_a_value_may_be_empty() -> None:
    row = {"id": "1", "time": 1, "user": "a@pve", "msg": "update VM 100: -cores 2 -tags  -name web"}
    [act] = acts.of_log([row])
    assert act.touched == {"cores", "tags", "name"}
    [last] = acts.of_log([{**row, "msg": "update VM 100: -tags"}])
    assert last.touched == {"tags"}

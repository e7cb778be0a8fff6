"""The plan of a server as tables: (intent, truth) -> what is done next. The order of the branches is the safety."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zone9.model.facts import Intent
from zone9.model.plans import Plan
from zone9.model.states import Phase
from zone9.products.servers.fields import wanted
from zone9.products.servers.plan import plan
from zone9.products.servers.truth import Failed, Nic, Place, ServerTruth, Settings, Unsettled

UUID = "11111111-2222-4333-8444-555555555555"
PLACE = Place(
    vmid=10_000, node="pve1", uuid=UUID, nonce="abc", template=9000, template_node="pve1", identified=True
)
NEW = PLACE.model_copy(update={"identified": False})
MAC = "02:00:00:00:00:01"

SPEC: dict[str, Any] = {
    "region": "r1", "plan": "small", "image": "tiny", "ssh_keys": [], "networks": [], "power": "on",
    "stop": {"mode": "graceful", "timeout": 60}, "restart_count": 0, "tags": ["web"], "cores": None, "memory_mib": None,
    "protected": False, "guest_shutdown": "restart",
}  # fmt: skip
RESOLVED: dict[str, Any] = {
    "region": "reg_1", "cores": 2, "memory_mib": 2048, "disk_gib": 10, "ssh_keys": "", "user": None, "nameserver": None,
    "networks": [{"mac": MAC, "bridge": "vmbr0", "vlan": 5, "ipconfig": "gw=10.0.0.1,ip=10.0.0.2/24"}],
}  # fmt: skip
LIVE = Intent(
    id="srv_1", kind="server", project="p", name="web1", version=3, applied_version=2, spec=SPEC, resolved=RESOLVED, facts={},
    phase=Phase.LIVE,
)  # fmt: skip
GONE = replace(LIVE, phase=Phase.DELETING)
SETTINGS = Settings(
    name="web1", cores=2, memory_mib=2048, nics={"net0": Nic(mac=MAC, bridge="vmbr0", tag=5)},
    ipconfig={"ipconfig0": "gw=10.0.0.1,ip=10.0.0.2/24"}, tags=("web",), uuid=UUID, marker="zone9:srv_1:abc",
)  # fmt: skip
EQUAL = ServerTruth(
    place=PLACE, clone_outcome="done", vm="ours", node="pve1", status="running", now=SETTINGS, after_restart=SETTINGS,
    disk_bytes=10 * 1024**3, disk_key="scsi0", digest="d", tags_ours=("web",), booted=True,
)  # fmt: skip


def asking(**spec: Any) -> Intent:
    return replace(LIVE, spec={**SPEC, **spec})


def truth(**change: Any) -> ServerTruth:
    return EQUAL.model_copy(update=change)


def settings(**change: Any) -> dict[str, Settings]:
    """Both as it runs and after a restart."""
    changed = SETTINGS.model_copy(update=change)
    return {"now": changed, "after_restart": changed}


@dataclass(frozen=True)
class Row:
    why: str
    intent: Intent
    truth: ServerTruth
    then: str


STOPPED = truth(status="stopped")
ASKED_OF_HA = {"ha_managed": True, "asked_power": "start", "asked_power_seconds": 5.0}
LOST = ServerTruth(place=PLACE, vm="absent", clone_outcome="done", absence="proven", lost_at="t2")
LINK = {"vmid": 300, "uuid": UUID, "digest": None}
TABLE = [
    Row("equal", LIVE, EQUAL, "nothing"),
    Row("never placed", LIVE, ServerTruth(), "place"),
    Row("never placed, to be deleted", GONE, ServerTruth(), "gone"),
    *[
        Row(
            f"absent after {outcome}",
            LIVE,
            ServerTruth(place=NEW, vm="absent", clone_outcome=outcome),
            "clone",
        )
        for outcome in (None, "refused", "not_sent", "not_applied")
    ],
    Row(
        "absent after a clone that was done",
        LIVE,
        ServerTruth(place=PLACE, vm="absent", clone_outcome="done"),
        "wait absence_unproven",
    ),
    Row("absence proven", LIVE, LOST, "refuse vm_missing"),
    Row("absence proven, and another was asked for", asking(recreate=10_000, loss="t2"), LOST, "burn"),
    Row("lost again after that decision", asking(recreate=10_000, loss="t1"), LOST, "refuse vm_missing"),
    Row("lost again after another VM was named", asking(link=LINK, loss="t1"), LOST, "refuse vm_missing"),
    Row(
        "absence proven, another was asked for before that",
        asking(recreate=9_999, loss="t2"),
        LOST,
        "refuse vm_missing",
    ),
    Row("absence proven, and a VM was named", asking(link=LINK, loss="t2"), LOST, "link"),
    Row(
        "another was about to be made, and then one was named",
        asking(link=LINK, loss="t1"),
        ServerTruth(place=NEW, vm="absent"),
        "link",
    ),
    Row("absence proven, to be deleted", GONE, LOST, "gone"),
    Row(
        "absent, to be deleted",
        GONE,
        ServerTruth(place=PLACE, vm="absent", clone_outcome="done"),
        "wait absence_unproven",
    ),
    Row(
        "absent after our own delete",
        GONE,
        ServerTruth(place=PLACE, vm="absent", clone_outcome="done", deleted_by_us=True),
        "gone",
    ),
    Row("never placed, taken over", asking(link=LINK), ServerTruth(), "link"),
    Row("taken over and lost", asking(link={**LINK, "vmid": 10_000}), LOST, "refuse vm_missing"),
    Row("to be let go of", replace(GONE, spec={**SPEC, "forget": True}), EQUAL, "gone"),
    Row("seen twice", LIVE, truth(twins=(300,)), "wait duplicate decision"),
    Row("seen twice, to be deleted", GONE, truth(twins=(300,)), "wait duplicate decision"),
    Row("the clone failed", LIVE, ServerTruth(place=PLACE, vm="absent", clone_outcome="failed"), "burn"),
    Row("the clone failed and left something", LIVE, truth(clone_outcome="failed", lock="clone"), "burn"),
    Row(
        "somebody else's VM at an id that was never ours",
        LIVE,
        ServerTruth(place=NEW, vm="foreign", clone_outcome=None),
        "burn",
    ),
    Row(
        "somebody else's VM at our id",
        LIVE,
        ServerTruth(place=PLACE, vm="foreign", clone_outcome="done"),
        "refuse identity_mismatch",
    ),
    Row(
        "the same, and another was asked for",
        asking(recreate=10_000, loss="t2"),
        ServerTruth(place=PLACE, vm="foreign", clone_outcome="done", lost_at="t2"),
        "burn",
    ),
    Row(
        "the same, to be deleted",
        GONE,
        ServerTruth(place=PLACE, vm="foreign", clone_outcome="done"),
        "refuse identity_mismatch",
    ),
    Row(
        "being made",
        LIVE,
        ServerTruth(place=PLACE, vm="placeholder", clone_outcome="done"),
        "wait clone_running",
    ),
    Row("locked", LIVE, truth(lock="backup"), "wait locked"),
    Row("locked, to be deleted", GONE, truth(lock="backup"), "wait locked"),
    Row("another's task", LIVE, truth(foreign_task="qmigrate by root@pam"), "wait foreign_task"),
    Row("an unknown outcome", LIVE, truth(unsettled=Unsettled(step="start", text="?")), "wait task_running"),
    Row(
        "our clone runs and it is to be deleted",
        GONE,
        ServerTruth(
            place=PLACE, vm="placeholder", unsettled=Unsettled(step="clone", upid="UPID:x", running=True)
        ),
        "stop_clone",
    ),
    Row(
        "a passing failure",
        LIVE,
        truth(failed=Failed(step="start", code="x", text="y", passing=True)),
        "wait x",
    ),
    Row(
        "a lasting failure",
        LIVE,
        truth(failed=Failed(step="start", code="x", text="y", passing=False)),
        "refuse x",
    ),
    Row("no identity yet", LIVE, truth(status="stopped", **settings(uuid="other")), "configure uuid"),
    Row("another name", LIVE, truth(**settings(name="old")), "configure name"),
    Row(
        "less memory, off", LIVE, truth(status="stopped", **settings(memory_mib=512)), "configure memory_mib"
    ),
    Row(
        "less memory, running",
        LIVE,
        truth(**settings(memory_mib=512)),
        "configure memory_mib pending_restart",
    ),
    Row(
        "memory written, not yet running",
        LIVE,
        truth(now=SETTINGS.model_copy(update={"memory_mib": 512})),
        "wait needs_restart restart",
    ),
    Row(
        "a card without its tag",
        LIVE,
        truth(**settings(nics={"net0": Nic(mac=MAC, bridge="vmbr0")})),
        "configure net0",
    ),
    Row("a tag of ours is missing", LIVE, truth(**settings(tags=())), "configure tags"),
    Row("a tag of theirs stays", LIVE, truth(**settings(tags=("theirs", "web"))), "nothing"),
    Row("a tag that was ours goes", asking(tags=[]), EQUAL, "configure tags"),
    Row("a small disk", LIVE, truth(disk_bytes=1024**3), "resize"),
    Row("a large disk", LIVE, truth(disk_bytes=99 * 1024**3), "nothing"),
    Row("off", LIVE, STOPPED, "start"),
    Row("just switched off by us", LIVE, truth(status="stopped", off_seconds=0.5), "wait resting"),
    Row("off since a while", LIVE, truth(status="stopped", off_seconds=5.0), "start"),
    Row("on, asked off gracefully", asking(power="off"), EQUAL, "shutdown"),
    Row("on, asked off hard", asking(power="off", stop={"mode": "hard", "timeout": 60}), EQUAL, "stop"),
    Row("off, asked off", asking(power="off"), STOPPED, "nothing"),
    Row("a restart", asking(restart_count=1), EQUAL, "restart"),
    Row("a restart that was done", asking(restart_count=1), truth(restarts_done=1), "nothing"),
    Row("a restart while off is a start", asking(restart_count=1), STOPPED, "start"),
    Row("the guest went off by itself", LIVE, STOPPED, "start"),
    Row("the same, accepted", asking(guest_shutdown="accept"), STOPPED, "accept_shutdown"),
    Row(
        "accepted, but never booted",
        asking(guest_shutdown="accept"),
        truth(status="stopped", booted=False),
        "start",
    ),
    Row("asked of the HA manager", LIVE, truth(status="stopped", **ASKED_OF_HA), "wait ha_asked"),
    Row("HA has started it", LIVE, truth(**ASKED_OF_HA), "nothing"),
    Row(
        "HA was asked for something else",
        asking(power="off"),
        truth(**ASKED_OF_HA),
        "shutdown",
    ),
    Row(
        "HA has had its time",
        LIVE,
        truth(status="stopped", **{**ASKED_OF_HA, "asked_power_seconds": 121.0}),
        "start",
    ),
    Row("started, and off at once", LIVE, truth(status="stopped", asked_power="start"), "start"),
    Row("to be deleted, HA was asked", GONE, truth(ha_managed=True, asked_power="stop"), "wait ha_asked"),
    Row("to be deleted, running", GONE, EQUAL, "stop"),
    Row("to be deleted, just stopped", GONE, truth(status="stopped", off_seconds=0.5), "wait resting"),
    Row("to be deleted, off", GONE, STOPPED, "delete"),
]


def told(made: Plan) -> str:
    """Returns a plan in words."""
    if made.gone:
        return "gone"
    if made.refusal is not None:
        return f"refuse {made.refusal.code}"
    if made.wait is not None:
        return f"wait {made.wait.message.code} {made.wait.needs or ''}".strip()
    if not made.steps:
        return "nothing"
    step = made.steps[0]
    if step.name == "configure":
        late = f" {step.change}" if step.change != "hot" else ""
        return f"configure {' '.join(step.args)}{late}"
    return step.name


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.why)
def test_the_table(row: Row) -> None:
    assert told(plan(row.intent, row.truth)) == row.then


WRITING = {"configure", "resize", "start", "stop", "shutdown", "restart", "delete"}
truths = st.builds(
    truth,
    vm=st.sampled_from(["ours", "foreign", "absent", "placeholder"]),
    clone_outcome=st.sampled_from([None, "done", "failed", "refused", "not_applied"]),
    lock=st.sampled_from([None, "backup", "clone"]),
    foreign_task=st.sampled_from([None, "qmigrate by root@pam"]),
    unsettled=st.sampled_from(
        [None, Unsettled(step="start", text="?"), Unsettled(step="clone", running=True, upid="U")]
    ),
    status=st.sampled_from(["running", "stopped"]),
    off_seconds=st.sampled_from([None, 0.0, 99.0]),
    disk_bytes=st.sampled_from([None, 1, 2**40]),
)
intents = st.sampled_from([LIVE, GONE, asking(power="off"), asking(restart_count=1), asking(tags=[])])


@given(intents, truths)
def test_nothing_is_written_to_what_is_foreign_locked_busy_or_of_unknown_outcome(
    intent: Intent, seen: ServerTruth
) -> None:
    made = plan(intent, seen)
    names = {step.name for step in made.steps}
    if seen.vm != "ours" or seen.lock or seen.foreign_task or seen.unsettled:
        assert not names & WRITING
    if seen.clone_outcome == "done":
        assert "clone" not in names


@given(intents, truths)
def test_a_plan_is_one_answer_and_always_the_same(intent: Intent, seen: ServerTruth) -> None:
    made = plan(intent, seen)
    assert made == plan(intent, seen)
    assert [bool(made.steps), made.wait is not None, made.refusal is not None, made.gone].count(True) <= 1


def test_what_others_wrote_beside_ours_is_kept() -> None:
    seen = truth(**settings(tags=("old", "theirs")), tags_ours=("old",))
    assert wanted(LIVE, seen).tags == ("theirs", "web")

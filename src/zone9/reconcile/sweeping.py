"""One pass over a region: what it lists is compared with the pass before, and who is to be looked at is woken.

Rows, logs and tasks are hints, never truth. Pure but for `once`: `weigh` turns two passes into what is kept.

A pass is *good* when its silence about a VM means something: it is complete and quorate, the canary is listed, and the
token's rights are those with which the region's self-test found nothing wrong. While one is not, no absence is judged,
and the region says why.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from zone9.model.facts import Message
from zone9.pve import inventory
from zone9.pve.driver import RegionDriver
from zone9.pve.inventory import GuestRow
from zone9.pve.sweep import Cursor, Swept, sweep
from zone9.pve.vm import is_absent
from zone9.store import sweeps
from zone9.store.database import Database
from zone9.store.sweeps import Kept, SweepState

VM_PATH = re.compile(r"/vms/\d+")
MOST_ASKED = 50  # VMs that are listed no more; the others wait for the next pass
RIGHTS_EVERY = 6  # passes; and in every pass after which an absence would be judged


@dataclass(frozen=True, slots=True)
class Pass:
    """Is a pass that was written down: what was seen, whom it woke, and what speaks against its silence."""

    rows: Mapping[int, GuestRow]
    woken: tuple[str, ...]
    frozen: tuple[Message, ...]
    requests: int


async def once(
    database: Database, driver: RegionDriver, region: str, before: Mapping[int, GuestRow] | None
) -> Pass:
    """Makes a pass and writes it down. `before` is what this process saw last; None at its first pass.

    Raises what reading the lists raises: a failed pass is no pass.
    """
    state = await sweeps.begin(database, region)
    if before is None:
        before = {int(one["vmid"]): GuestRow(**one) for one in await sweeps.listed(database, region)}
    swept = await sweep(driver.client, Cursor(state.log_seen, state.tasks_since, state.running, state.known))
    vanished = before.keys() - swept.inventory.guests.keys()
    rights, requests = None, swept.requests
    unsure = state.rights is None or state.rights_seen is not None
    if unsure or vanished or state.missing or state.passes % RIGHTS_EVERY == 0:
        rights, requests = rights_hash(await driver.client.get("/access/permissions")), requests + 1
    kept = weigh(state, before, swept, rights, ours=driver.token_id)
    asked = [] if kept.frozen else [before[vmid] for vmid in kept.vanished if before[vmid].type == "qemu"]
    gone = await _gone(driver, asked[:MOST_ASKED])
    requests += len(asked[:MOST_ASKED])
    unsure_of = {one.vmid for one in asked} - gone
    missing = tuple(vmid for vmid in kept.vanished if vmid not in unsure_of)
    woken = await sweeps.keep(database, region, replace(kept, vanished=missing, requests=requests))
    # What is not judged yet (the pass is not good, or the VM may only be hidden) is kept for the next pass.
    open_ones = vanished if kept.frozen else unsure_of
    rows = {**{vmid: before[vmid] for vmid in open_ones}, **swept.inventory.guests}
    return Pass(rows, tuple(woken), kept.frozen, requests)


async def _gone(driver: RegionDriver, rows: list[GuestRow]) -> set[int]:
    """Returns the VMs of which their node says exactly that it has none; one that is only hidden answers otherwise."""
    said = await asyncio.gather(*(is_absent(driver.client, one.node, one.vmid) for one in rows))
    return {one.vmid for one, absent in zip(rows, said, strict=True) if absent}


def weigh(
    state: SweepState, before: Mapping[int, GuestRow], swept: Swept, rights: str | None, *, ours: str
) -> Kept:
    """Returns what is kept of a pass. Pure. `ours` is our own token: its acts are no news, but its VMs are read again."""
    now = swept.inventory.guests
    changes = inventory.changed_rows(before, now)
    differing = changes.appeared | changes.changed
    others = {act.vmid for act in swept.acts if act.who != ours}
    frozen, accepted, seen = _frozen(state, swept, rights)
    return Kept(
        at=state.now,
        listed=tuple(asdict(now[vmid]) for vmid in sorted(differing)),
        vanished=tuple(sorted(changes.vanished)),
        suspects=tuple(sorted(differing | (swept.touched & now.keys()))),
        woken=tuple(sorted(differing | others)),
        everything=swept.log_gap,
        acts=tuple({**asdict(act), "touched": sorted(act.touched)} for act in swept.acts if act.who != ours),
        frozen=frozen,
        cursor={
            "log_seen": dict(swept.cursor.log_seen),
            "tasks_since": swept.cursor.tasks_since,
            "running": dict(swept.cursor.running),
            "known": sorted(swept.cursor.known),
        },
        rights=accepted,
        rights_seen=seen,
        requests=swept.requests,
        nodes=len(swept.inventory.nodes),
        skew=swept.skew,
    )


def _frozen(
    state: SweepState, swept: Swept, rights: str | None
) -> tuple[tuple[Message, ...], str | None, str | None]:
    """Returns what speaks against the pass's silence, the rights that are accepted, and others that were seen."""
    found = [Message("pass_gap", text, {"what": text}) for text in swept.inventory.gaps]
    if state.canary is not None and state.canary not in swept.inventory.guests:
        found.append(
            Message("canary_hidden", f"The canary VM {state.canary} is not listed.", {"vmid": state.canary})
        )
    accepted, seen = state.rights, state.rights_seen
    if rights is not None:
        if accepted is None and state.region_ok_at is not None:
            accepted = rights
        if rights == accepted:
            seen = None
        elif rights == seen and _found_enough(state):
            accepted, seen = rights, None
        else:
            seen = rights
    if accepted is None or seen is not None:
        found.append(
            Message("rights_changed", "The token's rights have changed and no self-test has passed since.")
        )
    return tuple(found), accepted, seen


def _found_enough(state: SweepState) -> bool:
    """Tells whether the region's self-test found nothing wrong since other rights were seen."""
    since, ok = state.rights_seen_at, state.region_ok_at
    return since is not None and ok is not None and ok > since


def rights_hash(permissions: Mapping[str, Any]) -> str:
    """Returns a hash of what `/access/permissions` answered.

    Without the paths of single VMs: one is there for each member of a pool, and comes and goes with it. What hides a
    single VM is found where its absence is judged, since Proxmox then answers 403 and not that there is none.
    """
    shared = {path: rights for path, rights in permissions.items() if not VM_PATH.fullmatch(path)}
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()

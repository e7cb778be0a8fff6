"""Drift: which differences come from outside, and who made them. Pure.

Three values are compared: what is asked, what was read when truth last equalled intent, and what is read now. When
the newest version was applied before, every difference is drift, whoever made it. While a newer version is under way,
a difference is drift only where the value is no longer the applied one and a record names somebody else.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zone9.model.evidence import Deed, Evidence, OpenDrift
from zone9.model.facts import FieldDiff, Intent, Message
from zone9.model.plans import Plan, Wait
from zone9.model.states import Phase

MOST_SET_BACKS = 3  # of one field within an hour; then two writers are at it, and a person has to decide
NOBODY = "nobody that Proxmox knows of"


def mark(intent: Intent, plan: Plan, evidence: Evidence) -> Plan:
    """Returns the plan with its drift named; without steps where another writer has won three times."""
    if intent.phase is not Phase.LIVE or not plan.diffs:
        return plan
    diffs = tuple(_marked(intent, diff, evidence) for diff in plan.diffs)
    drifted = [diff for diff in diffs if diff.drift]
    if not drifted:
        return replace(plan, diffs=diffs)
    again = [diff for diff in drifted if evidence.set_backs.get(diff.field, 0) >= MOST_SET_BACKS]
    if plan.steps and again:
        return Plan(wait=Wait(_stopped(again[0]), None, needs="decision"), diffs=diffs, health="oscillating")
    if plan.health != "ok":
        return replace(plan, diffs=diffs)
    return replace(plan, diffs=diffs, health="drifted", health_message=_message(drifted))


def opened(plan: Plan, evidence: Evidence) -> tuple[FieldDiff, ...]:
    """Returns what is to be written down: drift that is new, or that is another or has another name than before."""
    known = {one.field: one for one in evidence.drifts}
    return tuple(diff for diff in plan.diffs if diff.drift and _is_news(diff, known.get(diff.field)))


def closed(plan: Plan, evidence: Evidence) -> tuple[str, ...]:
    """Returns the fields whose drift is over: truth was compared with intent, and they are equal."""
    if not plan.compared:
        return ()
    differing = {diff.field for diff in plan.diffs}
    return tuple(one.field for one in evidence.drifts if one.field not in differing)


def _marked(intent: Intent, diff: FieldDiff, evidence: Evidence) -> FieldDiff:
    before = evidence.applied.get(diff.field)
    known = next((one for one in evidence.drifts if one.field == diff.field), None)
    deed = _deed(evidence, diff.traces)
    if known is not None or intent.applied_version == intent.version:
        drift = True
    else:
        drift = deed is not None and diff.field in evidence.applied and diff.read != before
    if not drift:
        return replace(diff, applied=before)
    if deed is None and known is not None:
        return replace(diff, applied=before, drift=True, who=known.who, what=known.what, at=known.at)
    if deed is None:
        return replace(diff, applied=before, drift=True)
    return replace(diff, applied=before, drift=True, who=deed.who, what=deed.what, at=deed.at, act=deed.uid)


def _deed(evidence: Evidence, keys: frozenset[str]) -> Deed | None:
    found = [one for one in evidence.deeds if one.touched & keys]
    return found[-1] if found else None


def _is_news(diff: FieldDiff, known: OpenDrift | None) -> bool:
    if known is None:
        return True
    return (diff.read, diff.who, diff.at) != (known.read, known.who, known.at)


def _message(drifted: list[FieldDiff]) -> Message:
    fields = ", ".join(diff.field for diff in drifted)
    words: Mapping[str, Any] = {"fields": fields, "who": _who(drifted[0])}
    return Message("drifted", f"changed outside zone9: {fields}, by {words['who']}", words)


def _stopped(diff: FieldDiff) -> Message:
    words = {"field": diff.field, "who": _who(diff), "times": MOST_SET_BACKS}
    sentence = (
        f"{diff.field} was set back {MOST_SET_BACKS} times within an hour and is changed again by {words['who']}; "
        "zone9 has stopped. Ask for another value, or reconcile to go on"
    )
    return Message("oscillating", sentence, words)


def _who(diff: FieldDiff) -> str:
    return NOBODY if diff.who is None else f"{diff.who} ({diff.what})"

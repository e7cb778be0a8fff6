"""What a verdict becomes on its way to the database and to people: every field under its own name."""

from datetime import UTC, datetime

from zone9.model.facts import FieldDiff, Message, Verdict
from zone9.model.states import ChangeClass, Convergence, Health

AT = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)


def test_a_verdict_says_for_which_version_when_and_who_was_asked() -> None:
    diff = FieldDiff("memory", 512, 256, ChangeClass.PENDING_RESTART)
    message = Message("differs", "memory differs", {"field": "memory"})
    verdict = Verdict(Convergence.PENDING_RESTART, Health.DRIFTED, 7, AT, "pve1", message, (diff,))
    assert verdict.as_json() == {
        "convergence": "pending_restart",
        "health": "drifted",
        "observed_intent_version": 7,
        "measured_at": "2026-01-02T03:04:05.006000+00:00",
        "witness": "pve1",
        "message": {"code": "differs", "text": "memory differs", "words": {"field": "memory"}},
        "diffs": [
            {
                "field": "memory",
                "asked": 512,
                "applied": None,
                "read": 256,
                "class": "pending_restart",
                "drift": False,
                "who": None,
                "what": None,
                "at": None,
            }
        ],
    }


def test_a_verdict_with_nothing_to_say_says_nothing() -> None:
    said = Verdict(Convergence.APPLIED, Health.OK, 1, AT, "pve1").as_json()
    assert (said["message"], said["diffs"]) == (None, [])


def test_states_are_plain_words_once_they_leave() -> None:
    """An enum would be written as text by one library and refused by the next."""
    said = Verdict(Convergence.FAILED, Health.MISSING, 1, AT, "pve1", diffs=(FieldDiff("a", 1, 2),)).as_json()
    assert {type(said["convergence"]), type(said["health"]), type(said["diffs"][0]["class"])} == {str}

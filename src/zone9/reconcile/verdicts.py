"""From a plan to a verdict. Pure: what was found decides, and nothing else."""

from datetime import datetime

from zone9.model.facts import Intent, Message, Verdict
from zone9.model.plans import Plan
from zone9.model.states import Convergence, Health, Phase


def judge(intent: Intent, plan: Plan, at: datetime, witness: str) -> Verdict:
    """Returns what a complete look says, with nothing of it done yet."""
    health = Health(plan.health)
    message = plan.health_message
    if plan.gone:
        convergence = Convergence.DELETING
    elif plan.refusal is not None:
        convergence, message = Convergence.FAILED, plan.refusal
    elif plan.wait is not None:
        message = plan.wait.message
        convergence = Convergence.PENDING_RESTART if plan.wait.needs == "restart" else _moving(intent)
    elif not plan.steps:
        convergence = Convergence.APPLIED
    elif intent.given_up_version == intent.version:
        convergence = Convergence.FAILED
        health = Health.DEGRADED
        message = None  # the sentence with which it was given up still stands
    else:
        convergence = _moving(intent)
    return Verdict(convergence, health, intent.version, at, witness, message, plan.diffs)


def in_flight(intent: Intent, plan: Plan, at: datetime, witness: str, message: Message) -> Verdict:
    """Returns the verdict of a look after which the next step could not be done yet."""
    return Verdict(_moving(intent), Health(plan.health), intent.version, at, witness, message, plan.diffs)


def given_up(intent: Intent, plan: Plan, at: datetime, witness: str, message: Message) -> Verdict:
    """Returns the verdict of a version that zone9 gave up on."""
    return Verdict(Convergence.FAILED, Health.DEGRADED, intent.version, at, witness, message, plan.diffs)


def _moving(intent: Intent) -> Convergence:
    return Convergence.DELETING if intent.phase is Phase.DELETING else Convergence.APPLYING

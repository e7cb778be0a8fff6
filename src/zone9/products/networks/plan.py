"""What to do about a network: nothing is ever written, but what is wanting is said. Pure."""

from pydantic import BaseModel, ConfigDict, Field

from zone9.model.facts import Intent, Message
from zone9.model.plans import Plan, Wait
from zone9.model.states import Phase


class NetworkTruth(BaseModel):
    """Is one look: on which online nodes the bridge is, and on which it is not."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    present: tuple[str, ...] = ()
    wanting: tuple[str, ...] = ()
    asked: bool = Field(default=False, description="whether anybody was asked yet")


def plan(intent: Intent, truth: NetworkTruth) -> Plan:
    """A network is there when its bridge is on a node; nodes without it are named."""
    if intent.phase is Phase.DELETING:
        return Plan(gone=True)
    bridge = intent.spec["bridge"]
    if not truth.present:
        message = Message(
            "bridge_missing", f"no node has a bridge {bridge}; make it in Proxmox", {"bridge": bridge}
        )
        return Plan(wait=Wait(message, 20.0, needs="bridge"), health="degraded", health_message=message)
    if truth.wanting:
        nodes = ", ".join(truth.wanting)
        message = Message(
            "bridge_missing_on",
            f"these nodes have no bridge {bridge}: {nodes}",
            {"bridge": bridge, "nodes": nodes},
        )
        return Plan(health="degraded", health_message=message)
    return Plan()

"""What a person decides about a server whose VM is lost or was taken over. Pure.

Each names the VM and the loss that it is about, so that it counts once: never for the next VM, and never for the same VM
when it came back and is lost again.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from zone9.base.errors import FieldProblem, Refused
from zone9.model.facts import Intent
from zone9.model.states import Convergence, Health


class LinkBody(BaseModel):
    """The VM that the server is to be from now on."""

    model_config = ConfigDict(extra="forbid")

    vmid: int = Field(ge=100, le=999_999_999)


def recreate(intent: Intent, _body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Asks for another VM in place of the lost one: empty, with the same addresses."""
    _refuse_unless_lost(intent)
    if intent.spec.get("image") is None:
        raise Refused(
            f"{intent.name} has no image to be made from; link it to a VM", code="no_image", status=409
        )
    return {**intent.spec, "link": None, "recreate": intent.facts["vmid"], "loss": intent.facts["lost_at"]}


def link(intent: Intent, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Asks for a VM that is there, such as one restored from a backup, to be the server's."""
    _refuse_unless_lost(intent)
    asked = LinkBody.model_validate(dict(body))
    if asked.vmid == intent.facts["vmid"]:
        sentence = f"VM {asked.vmid} is the one that is lost; name another"
        raise Refused(sentence, code="link_same", fields=(FieldProblem("/vmid", sentence, "link_same"),))
    link = {"vmid": asked.vmid, "uuid": None, "digest": None}
    return {**intent.spec, "link": link, "recreate": None, "loss": intent.facts["lost_at"]}


def forget(intent: Intent, _body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ends the server here; nothing is done to any VM, also where two of them have its identity."""
    if intent.health is not Health.DUPLICATE:
        _refuse_unless_lost(intent)
    return {**intent.spec, "forget": True}


def release(intent: Intent, _body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Undoes the taking over of a VM: it stays as it is, and zone9 only shows it."""
    if intent.spec.get("link") is None:
        raise Refused(
            f"{intent.name} was made by zone9; delete it, or forget it once its VM is lost",
            code="not_adopted",
            status=409,
            name=intent.name,
        )
    return {**intent.spec, "forget": True}


def _refuse_unless_lost(intent: Intent) -> None:
    # Failed alone may be anything; with a loss beside it, a stranger has the VM's number.
    said = intent.health is Health.MISSING or intent.convergence is Convergence.FAILED
    if not said or intent.facts.get("vmid") is None or intent.facts.get("lost_at") is None:
        raise Refused(
            f"the VM of {intent.name} is not lost: there is nothing to decide",
            code="not_missing",
            status=409,
            name=intent.name,
        )

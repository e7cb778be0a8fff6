"""What may be asked of a server. Pure: no look-up, no clock."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from zone9.base.errors import FieldProblem, Refused
from zone9.model.facts import Intent

TAG = re.compile(r"[a-z0-9_][a-z0-9_+.-]{0,39}")

# Fixed for a server's life: they decide where its data lies and what its first boot wrote into it.
FIXED = ("region", "image", "networks", "ssh_keys")

# What people decide about a machine through actions of their own, each with its own condition.
DECISIONS = ("recreate", "link", "forget", "loss")


class ServerNetwork(BaseModel):
    """A network the server is attached to; without an address, zone9 picks one."""

    model_config = ConfigDict(extra="forbid")

    network: str = Field(min_length=1, max_length=80)
    address: str | None = None

    @field_validator("address")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None:
            ipaddress.IPv4Address(value)
        return value


class Stop(BaseModel):
    """How the server goes off: `graceful` asks the guest and waits `timeout` seconds; `hard` cuts the power."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["graceful", "hard"] = "graceful"
    timeout: int = Field(default=60, ge=1, le=3600)


class Link(BaseModel):
    """A VM that is there already, as it was when somebody said: this one."""

    model_config = ConfigDict(extra="forbid")

    vmid: int = Field(ge=100, le=999_999_999)
    uuid: str | None = Field(default=None, description="its own, when no other VM has it")
    digest: str | None = Field(
        default=None, description="of its config file, where it has no uuid of its own"
    )


class ServerSpec(BaseModel):
    """What is asked of a server."""

    model_config = ConfigDict(extra="forbid")

    region: str = Field(min_length=1, max_length=80)
    plan: str | None = Field(default=None, min_length=1, max_length=80)
    image: str | None = Field(default=None, min_length=1, max_length=80)
    ssh_keys: list[str] = Field(default_factory=list, max_length=20)
    networks: list[ServerNetwork] = Field(default_factory=list, max_length=8)
    power: Literal["on", "off"] = "on"
    stop: Stop = Field(default_factory=Stop)
    restart_count: int = Field(default=0, ge=0, le=1_000_000_000)
    tags: list[str] = Field(default_factory=list, max_length=30)
    cores: int | None = Field(default=None, ge=1, le=128, description="instead of the plan's")
    memory_mib: int | None = Field(
        default=None, ge=16, le=4_194_304, description="MiB, instead of the plan's"
    )
    protected: bool = Field(default=False, description="a protected server cannot be deleted")
    guest_shutdown: Literal["restart", "accept"] = Field(
        default="restart", description="what happens when the guest shuts itself down"
    )
    link: Link | None = Field(
        default=None, description="the VM that was taken over; set by manage and link alone"
    )
    recreate: int | None = Field(
        default=None, description="the lost VM in whose place another is made; set by recreate alone"
    )
    forget: bool = Field(default=False, description="the VM is let go of; set by forget and release alone")
    loss: str | None = Field(
        default=None,
        description="since when the VM was lost that recreate or link is about; set by them alone",
    )

    @field_validator("tags")
    @classmethod
    def _tags(cls, value: list[str]) -> list[str]:
        for tag in value:
            if not TAG.fullmatch(tag):
                raise ValueError("a tag has 1 to 40 characters of a-z, 0-9 and _ + . -")
        return sorted(set(value))

    @model_validator(mode="after")
    def _networks_once(self) -> "ServerSpec":
        names = [one.network for one in self.networks]
        if len(set(names)) != len(names):
            raise ValueError("a network is named twice")
        return self

    @model_validator(mode="after")
    def _made_of_something(self) -> "ServerSpec":
        if self.link is None and (self.plan is None or self.image is None):
            raise ValueError("a server is made from a plan and an image")
        return self


def problems(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
    """Returns what of a change cannot be."""
    wrong = [
        FieldProblem(f"/spec/{field}", f"{field} cannot be changed", "immutable", {"field": field})
        for field in FIXED
        if before.get(field) != after.get(field)
    ]
    wrong += [
        FieldProblem(
            f"/spec/{field}", f"{field} has an action of its own", "by_action_only", {"field": field}
        )
        for field in DECISIONS
        if before.get(field) != after.get(field)
    ]
    if not before["restart_count"] <= after["restart_count"] <= before["restart_count"] + 1:
        sentence = "restart_count grows by one at a time"
        wrong.append(FieldProblem("/spec/restart_count", sentence, "restart_count"))
    return tuple(wrong)


class ShutdownBody(BaseModel):
    """How long to wait for the guest, in seconds."""

    model_config = ConfigDict(extra="forbid")

    timeout: int = Field(default=60, ge=1, le=3600)


def start(intent: Intent, _body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**intent.spec, "power": "on"}


def stop(intent: Intent, _body: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = intent.spec
    return {**spec, "power": "off", "stop": {"mode": "hard", "timeout": spec["stop"]["timeout"]}}


def shutdown(intent: Intent, body: Mapping[str, Any]) -> Mapping[str, Any]:
    timeout = ShutdownBody.model_validate(dict(body)).timeout
    return {**intent.spec, "power": "off", "stop": {"mode": "graceful", "timeout": timeout}}


def restart(intent: Intent, _body: Mapping[str, Any]) -> Mapping[str, Any]:
    if intent.spec["power"] == "off":
        raise Refused("the server is off; start it", code="server_off", status=409)
    return {**intent.spec, "restart_count": intent.spec["restart_count"] + 1}

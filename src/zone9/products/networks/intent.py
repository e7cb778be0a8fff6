"""What may be asked of a network. Pure."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from zone9.base.errors import FieldProblem

FIXED = ("region", "bridge", "vlan", "cidr", "gateway")


class NetworkSpec(BaseModel):
    """A bridge that exists in Proxmox, a VLAN on it (none: untagged), and the addresses to give out."""

    model_config = ConfigDict(extra="forbid")

    region: str = Field(min_length=1, max_length=80)
    bridge: str = Field(default="vmbr0", pattern=r"^[a-zA-Z][a-zA-Z0-9_.-]{0,14}$")
    vlan: int | None = Field(default=None, ge=1, le=4094)
    cidr: str = Field(description="IPv4 network, such as 10.10.0.0/24")
    gateway: str | None = Field(default=None, description="an address of the network, or none")
    nameservers: list[str] = Field(default_factory=list, max_length=3)

    @field_validator("cidr")
    @classmethod
    def _is_network(cls, value: str) -> str:
        network = ipaddress.IPv4Network(value)
        if not 8 <= network.prefixlen <= 30:
            raise ValueError("the network has between 4 and 16777216 addresses (/30 to /8)")
        return str(network)

    @field_validator("nameservers")
    @classmethod
    def _are_addresses(cls, value: list[str]) -> list[str]:
        return [str(ipaddress.ip_address(one)) for one in value]

    @model_validator(mode="after")
    def _gateway_inside(self) -> "NetworkSpec":
        if self.gateway is not None:
            network, gateway = ipaddress.IPv4Network(self.cidr), ipaddress.IPv4Address(self.gateway)
            if gateway not in network or gateway in (network.network_address, network.broadcast_address):
                raise ValueError("the gateway is not a host of the network")
            self.gateway = str(gateway)
        return self


def problems(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
    """Returns what of a change cannot be: servers were made with these values."""
    return tuple(
        FieldProblem(f"/spec/{field}", f"{field} cannot be changed", "immutable", {"field": field})
        for field in FIXED
        if before.get(field) != after.get(field)
    )

"""What may be asked of the catalogue's kinds. Pure."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from zone9.base.errors import FieldProblem

KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
             "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")  # fmt: skip
FINGERPRINT = re.compile(r"(?:[0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}|[0-9A-Fa-f]{64}")


class RegionSpec(BaseModel):
    """A Proxmox cluster: where it answers, by which key it is known, and the VMIDs that are zone9's own."""

    model_config = ConfigDict(extra="forbid")

    urls: list[str] = Field(min_length=1, max_length=32, description="https addresses of its nodes")
    fingerprint: str | None = Field(default=None, description="SHA-256 of the certificate that answers")
    ca_pem: str | None = Field(
        default=None, max_length=65536, description="the cluster's CA, instead of a fingerprint"
    )
    token_id: str = Field(pattern=r"^[^\s@!=]+@[^\s@!=]+![^\s@!=]+$", description="user@realm!name")
    token_secret: str | None = Field(
        default=None,
        max_length=200,
        description="sealed at once; never shown again",
        json_schema_extra={"writeOnly": True},
    )
    token_ref: str | None = Field(default=None, max_length=80, description="set by zone9")
    vmid_first: int = Field(default=10_000, ge=100, le=999_999_999)
    vmid_last: int = Field(default=19_999, ge=100, le=999_999_999)
    canary: int | None = Field(
        default=None, ge=100, le=999_999_999, description="a VM that must always be visible"
    )
    storage: str | None = Field(default=None, pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")
    full_clone: bool = False
    clones_per_template: int = Field(default=2, ge=1, le=16)

    @field_validator("urls")
    @classmethod
    def _https(cls, value: list[str]) -> list[str]:
        for one in value:
            if not re.fullmatch(r"https://[A-Za-z0-9.\-\[\]:]+", one.rstrip("/")):
                raise ValueError("a region's address is https://host:port and nothing more")
        return [one.rstrip("/") for one in value]

    @model_validator(mode="after")
    def _whole(self) -> "RegionSpec":
        if self.vmid_last < self.vmid_first:
            raise ValueError("vmid_last is below vmid_first")
        if (self.fingerprint is None) == (self.ca_pem is None):
            raise ValueError("give either the certificate's fingerprint or the cluster's CA")
        if self.fingerprint is not None and not FINGERPRINT.fullmatch(self.fingerprint):
            raise ValueError("a fingerprint is 32 hexadecimal bytes, with colons or without")
        return self


class PlanSpec(BaseModel):
    """A size of server."""

    model_config = ConfigDict(extra="forbid")

    cores: int = Field(ge=1, le=128)
    memory_mib: int = Field(ge=16, le=4_194_304, description="MiB")
    disk_gib: int = Field(ge=1, le=65_536, description="GiB")


class ImageSpec(BaseModel):
    """A template that is there in Proxmox."""

    model_config = ConfigDict(extra="forbid")

    region: str = Field(min_length=1, max_length=80)
    vmid: int = Field(ge=100, le=999_999_999)
    default_user: str | None = Field(default=None, pattern=r"^[a-z_][a-z0-9_-]{0,31}$")


class SshKeySpec(BaseModel):
    """A public key in OpenSSH's one-line form."""

    model_config = ConfigDict(extra="forbid")

    public_key: str = Field(max_length=16_384)

    @field_validator("public_key")
    @classmethod
    def _is_key(cls, value: str) -> str:
        parts = value.strip().split(None, 2)
        if len(parts) < 2 or parts[0] not in KEY_TYPES or "\n" in value.strip():
            raise ValueError("this is not one public key in OpenSSH's form")
        try:
            blob = base64.b64decode(parts[1], validate=True)
        except binascii.Error:
            raise ValueError("the key's base64 is damaged") from None
        if not blob[4:].startswith(parts[0].encode()):
            raise ValueError("the key does not say its own type")
        return value.strip()


def fixed(*fields: str) -> Any:
    """Returns a check that these fields do not change."""

    def problems(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        return tuple(
            FieldProblem(f"/spec/{field}", f"{field} cannot be changed", "immutable", {"field": field})
            for field in fields
            if before.get(field) != after.get(field)
        )

    return problems

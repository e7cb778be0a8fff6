"""Devices and the tokens by which they come to be. Both are kept as hashes alone; a token is used under its row's lock."""

import hashlib
import secrets
from datetime import datetime
from typing import Any

from zone9.base.ids import new_id
from zone9.store.database import Connection, Row, row, run

TOKEN_SECONDS = 15 * 60  # from the start that was read back
UNSTARTED_SECONDS = 24 * 3600  # a machine that is never started leaves no token behind that works for ever


def hashed(plain: str) -> bytes:
    """Returns what is kept instead of a token or a secret."""
    return hashlib.sha256(plain.encode()).digest()


async def mint(connection: Connection, *, resource: str, product: str, uuid: str) -> str:
    """Returns a new token for one machine, which nobody can read again; those before it are void."""
    await run(
        connection,
        "UPDATE bootstrap_tokens SET state = 'void' WHERE resource = :resource AND state = 'open'",
        resource=resource,
    )
    plain = secrets.token_urlsafe(32)
    await run(
        connection,
        """
        INSERT INTO bootstrap_tokens (hash, resource, product, uuid, expires_at)
        VALUES (:hash, :resource, :product, :uuid, z9_now() + make_interval(secs => :seconds))
        """,
        hash=hashed(plain),
        resource=resource,
        product=product,
        uuid=uuid.lower(),
        seconds=UNSTARTED_SECONDS,
    )
    return plain


async def started(connection: Connection, resource: str, at: datetime) -> None:
    """Lets the time of a token count from its machine's start; a later start does not lengthen it."""
    await run(
        connection,
        """
        UPDATE bootstrap_tokens SET expires_at = least(expires_at, :at + make_interval(secs => :seconds))
        WHERE resource = :resource AND state = 'open'
        """,
        resource=resource,
        at=at,
        seconds=TOKEN_SECONDS,
    )


async def token_of(connection: Connection, plain: str) -> Row | None:
    """Locks a token and returns it with the device that it made, if any.

    Locked first and read afterwards: a statement that waits for a lock sees the locked row anew, but what it
    joined as it was before, which would be a used token without a device.
    """
    await run(connection, "SELECT 1 FROM bootstrap_tokens WHERE hash = :hash FOR UPDATE", hash=hashed(plain))
    return await row(
        connection,
        """
        SELECT t.hash, t.resource, t.product, t.uuid, t.state, t.expires_at <= z9_now() AS expired, t.device,
               d.state AS device_state, d.secret_hash, d.proven_at IS NOT NULL AS proven
        FROM bootstrap_tokens t LEFT JOIN devices d ON d.id = t.device WHERE t.hash = :hash
        """,
        hash=hashed(plain),
    )


async def enrol(connection: Connection, token: Row, secret_hash: bytes) -> str | None:
    """Makes the device of a token that was not used before; returns its id, or None when a device has this secret."""
    device = new_id("dev")
    made = await run(
        connection,
        """
        INSERT INTO devices (id, resource, product, uuid, secret_hash)
        VALUES (:id, :resource, :product, :uuid, :secret) ON CONFLICT (secret_hash) DO NOTHING
        """,
        id=device,
        resource=token["resource"],
        product=token["product"],
        uuid=token["uuid"],
        secret=secret_hash,
    )
    if not made:
        return None
    await run(
        connection,
        "UPDATE bootstrap_tokens SET state = 'used', device = :device WHERE hash = :hash",
        device=device,
        hash=token["hash"],
    )
    await _changed(connection)
    return device


async def freeze(connection: Connection, token: Row) -> None:
    """Shuts a token and its device, since two have claimed it."""
    await run(
        connection,
        "UPDATE bootstrap_tokens SET state = 'frozen' WHERE hash = :hash",
        hash=token["hash"],
    )
    await change(connection, token["device"], state="frozen")


async def change(connection: Connection, device: str, **columns: Any) -> None:
    """Changes a device and tells every process."""
    known = {"state", "first_seen_at", "proven_at", "ended_at"}
    assert columns.keys() <= known, columns.keys() - known
    assigned = ", ".join(f"{name} = :{name}" for name in columns)
    await run(
        connection,
        f"UPDATE devices SET {assigned}, change = nextval('device_changes') WHERE id = :id",
        id=device,
        **columns,
    )
    await _changed(connection)


async def end(connection: Connection, resource: str) -> None:
    """Revokes every device of a resource that is gone, and its tokens."""
    await run(
        connection,
        "UPDATE bootstrap_tokens SET state = 'void' WHERE resource = :resource AND state = 'open'",
        resource=resource,
    )
    ended = await run(
        connection,
        """
        UPDATE devices SET state = 'revoked', ended_at = z9_now(), change = nextval('device_changes')
        WHERE resource = :resource AND state <> 'revoked'
        """,
        resource=resource,
    )
    if ended:
        await _changed(connection)


async def _changed(connection: Connection) -> None:
    await run(connection, "SELECT pg_notify('z9_events', '')")

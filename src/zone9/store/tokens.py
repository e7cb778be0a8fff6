"""API tokens: shown once, kept as a hash, found by that hash.

A token is 256 random bits, so a plain SHA-256 of it cannot be searched, and the look-up goes through the hash's
unique index: nothing is ever compared character by character with what a stranger sent.
"""

import hashlib
import secrets
from dataclasses import dataclass

from zone9.base.errors import Refused
from zone9.base.ids import new_id
from zone9.model.asking import Role, Scope
from zone9.store import audit, projects
from zone9.store.database import Connection, Database, Row, row, rows, run

PREFIX = "z9_"
SHOWN = (
    "t.id, t.name, t.role, t.project, p.name AS project_name, t.created_at, t.last_used_at, t.revoked_at "
    "FROM api_tokens t LEFT JOIN projects p ON p.id = t.project"
)


@dataclass(frozen=True, slots=True)
class Holder:
    """Is who a token stands for; `project` is None for an administrator of the whole installation."""

    token: str
    name: str
    role: Role
    project: str | None


def hashed(plain: str) -> bytes:
    """Returns what is stored instead of the token."""
    return hashlib.sha256(plain.encode("utf-8", "surrogateescape")).digest()


async def create(
    connection: Connection, *, name: str, role: Role, project: str | None, actor: str = "system"
) -> tuple[Row, str]:
    """Returns the row and the token itself, which nobody can read again."""
    plain = PREFIX + secrets.token_urlsafe(32)
    id_ = new_id("tok")
    await run(
        connection,
        "INSERT INTO api_tokens (id, hash, name, project, role) VALUES (:id, :hash, :name, :project, :role)",
        id=id_,
        hash=hashed(plain),
        name=name,
        project=project,
        role=role,
    )
    made = await row(connection, f"SELECT {SHOWN} WHERE t.id = :id", id=id_)
    assert made is not None
    await audit.append(
        connection,
        actor=actor,
        action="create",
        kind="token",
        resource=id_,
        name=name,
        role=role,
        project=project,
    )
    return made, plain


async def first(database: Database, *, name: str = "first") -> str | None:
    """Makes the default project and, when there has never been a token, the first administrator's; returns it."""
    async with database.begin() as connection:
        await run(connection, "LOCK TABLE api_tokens IN SHARE ROW EXCLUSIVE MODE")
        await projects.ensure_default(connection)
        if await row(connection, "SELECT 1 AS one FROM api_tokens LIMIT 1") is not None:
            return None
        _, plain = await create(connection, name=name, role="admin", project=None)
        return plain


async def holder_of(database: Database, token_hash: bytes) -> Holder | None:
    """Returns who a token stands for, None when it is unknown or revoked; notes its use once a minute."""
    async with database.begin() as connection:
        found = await row(
            connection,
            """
            SELECT id, name, role, project, coalesce(last_used_at < z9_now() - interval '1 minute', true) AS stale
            FROM api_tokens WHERE hash = :hash AND revoked_at IS NULL
            """,
            hash=token_hash,
        )
        if found is None:
            return None
        if found["stale"]:
            await run(
                connection,
                """
                UPDATE api_tokens SET last_used_at = z9_now() WHERE id = :id
                  AND coalesce(last_used_at < z9_now() - interval '1 minute', true)
                """,
                id=found["id"],
            )
        return Holder(found["id"], found["name"], found["role"], found["project"])


async def listed(connection: Connection, scope: Scope, *, after: str | None, limit: int) -> list[Row]:
    """Returns tokens by age: an administrator sees all, an owner those of the project."""
    return await rows(
        connection,
        f"""
        SELECT {SHOWN} WHERE (t.id > CAST(:after AS text) OR CAST(:after AS text) IS NULL)
          AND (:all OR t.project = :project) ORDER BY t.id LIMIT :limit
        """,
        after=after,
        all=scope.may("admin"),
        project=scope.project,
        limit=limit,
    )


async def revoke(connection: Connection, scope: Scope, token: str) -> Row:
    """Revokes a token for ever; doing it twice changes nothing. Raises Refused for another project's."""
    found = await row(
        connection,
        f"SELECT {SHOWN} WHERE t.id = :id AND (:all OR t.project = :project) FOR UPDATE OF t",
        id=token,
        all=scope.may("admin"),
        project=scope.project,
    )
    if found is None:
        raise Refused(f"there is no token {token}", code="not_found", status=404, kind="token", ref=token)
    if found["revoked_at"] is None:
        await run(connection, "UPDATE api_tokens SET revoked_at = z9_now() WHERE id = :id", id=token)
        await audit.append(
            connection,
            actor=scope.actor,
            action="revoke",
            kind="token",
            resource=token,
            name=found["name"],
            project=found["project"],
        )
    revoked = await row(connection, f"SELECT {SHOWN} WHERE t.id = :id", id=token)
    assert revoked is not None
    return revoked

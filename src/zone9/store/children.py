"""The rows of a composite product's children."""

from zone9.model.facts import ChildState
from zone9.model.states import Phase
from zone9.store.database import Connection, rows, run


async def of(connection: Connection, owner: str) -> tuple[ChildState, ...]:
    """Returns the children of a parent that are not deleted."""
    found = await rows(
        connection,
        """
        SELECT id, kind, name, owner_key, owner_version, phase, health, observed,
               convergence = 'applied' AND applied_version IS NOT DISTINCT FROM intent_version AS applied
        FROM resources WHERE owner = :owner AND phase <> 'deleted' ORDER BY owner_key
        """,
        owner=owner,
    )
    return tuple(
        ChildState(
            id=one["id"],
            kind=one["kind"],
            name=one["name"],
            key=one["owner_key"],
            owner_version=one["owner_version"],
            phase=Phase(one["phase"]),
            applied=bool(one["applied"]),
            health=one["health"],
            observed=one["observed"] or {},
        )
        for one in found
    )


async def own(connection: Connection, child: str, owner: str, key: str) -> None:
    """Binds a fresh row to its parent; (owner, key) is unique by constraint."""
    await run(
        connection,
        "UPDATE resources SET owner = :owner, owner_key = :key WHERE id = :id",
        owner=owner,
        key=key,
        id=child,
    )


async def stamp(connection: Connection, child: str, version: int) -> None:
    """Says for which version of its parent a child was last planned."""
    await run(
        connection, "UPDATE resources SET owner_version = :version WHERE id = :id", version=version, id=child
    )

"""Children: what a composite product asks for. The parent's plan says which; this makes it so, idempotently.

A child is an ordinary resource with an `owner`, created once on (owner, key), stamped with the parent version that it
was planned for, and read-only for everybody else. What the plan no longer wants gets a tombstone. A parent is never
done before exactly the wanted children are there and each is applied for the parent's version.
"""

from collections.abc import Mapping

from zone9.base.errors import Never, Refused
from zone9.base.ids import new_id
from zone9.base.sealing import Sealer
from zone9.model.facts import ChildState, Intent, Message
from zone9.model.plans import Child, Wait
from zone9.model.ports import Product, Resolved
from zone9.model.states import Phase
from zone9.reconcile.specs import same_json, validated
from zone9.store import children, intents
from zone9.store.database import Connection, Database
from zone9.store.looks import Looks
from zone9.store.runs import Run, RunStore


class Children:
    """Brings a parent's children to what its plan wants."""

    def __init__(self, database: Database, registry: Mapping[str, Product], sealer: Sealer | None) -> None:
        self._database = database
        self._registry = registry
        self._sealer = sealer

    async def sync(self, store: RunStore, run: Run, wanted: tuple[Child, ...]) -> tuple[ChildState, ...]:
        """Creates, changes and removes children in one transaction; returns those that are there afterwards."""
        async with self._database.begin() as connection:
            await store.hold(connection, run.intent.id, run.fence)
            there = {one.key: one for one in await children.of(connection, run.intent.id)}
            for child in wanted:
                await self._want(connection, run.intent, child, there.get(child.key))
            for key in there.keys() - {child.key for child in wanted}:
                await self._remove(connection, run.intent, there[key])
            return await children.of(connection, run.intent.id)

    async def _want(
        self, connection: Connection, parent: Intent, child: Child, state: ChildState | None
    ) -> None:
        product = self._registry.get(child.kind)
        if product is None:
            raise Never(f"there is no kind {child.kind}", code="unknown_kind", kind=child.kind)
        spec = validated(product, child.spec)
        cause = f"{parent.kind} {parent.id} version {parent.version}"
        name = f"{parent.name}-{child.key}"
        if state is None:
            id_ = new_id(product.prefix)
            try:
                await intents.insert(
                    connection, id=id_, kind=child.kind, project=parent.project, name=name, spec=spec
                )
            except Refused as error:
                raise Never(error.public, code=error.code, **error.words) from error
            await children.own(connection, id_, parent.id, child.key)
            before, fresh = None, await intents.load_for_change(connection, id_)
        else:
            before = fresh = await intents.load_for_change(connection, state.id)
        look = Looks(connection, resource=fresh.id, project=fresh.project, sealer=self._sealer)
        resolved = await product.resolve(name, spec, before, look)
        changed = before is None or not (
            same_json(before.spec, resolved.spec or spec) and same_json(before.resolved, resolved.facts)
        )
        if changed:
            version = await intents.record_version(
                connection,
                before,
                id=fresh.id,
                name=name,
                spec=resolved.spec or spec,
                resolved=resolved,
                phase=Phase.LIVE,
                actor="system",
                cause=cause,
                applied=not product.outside,
            )
            await intents.open_job(
                connection,
                kind="apply",
                resource=fresh.id,
                project=fresh.project,
                version=version,
                actor="system",
            )
        await children.stamp(connection, fresh.id, parent.version)

    async def _remove(self, connection: Connection, parent: Intent, state: ChildState) -> None:
        if state.phase is not Phase.LIVE:
            return
        before = await intents.load_for_change(connection, state.id)
        version = await intents.record_version(
            connection,
            before,
            id=before.id,
            name=before.name,
            spec=before.spec,
            resolved=Resolved(before.resolved),
            phase=Phase.DELETING,
            actor="system",
            cause=f"{parent.kind} {parent.id} version {parent.version}",
            applied=False,
        )
        await intents.open_job(
            connection,
            kind="delete",
            resource=before.id,
            project=before.project,
            version=version,
            actor="system",
        )


def waiting_for(parent: Intent, wanted: tuple[Child, ...], there: tuple[ChildState, ...]) -> Wait | None:
    """Returns why a parent is not done yet, or None when exactly the wanted children are applied for its version."""
    keys = {child.key for child in wanted}
    lagging = [
        one.name
        for one in there
        if one.key not in keys or not one.applied or one.owner_version != parent.version
    ]
    missing = keys - {one.key for one in there}
    if not lagging and not missing:
        return None
    names = ", ".join(sorted([*lagging, *missing]))
    return Wait(Message("children", f"waiting for its parts: {names}", {"names": names}), None)

"""The use cases: asking for a resource, changing it, deleting it, measuring it.

Each runs inside the caller's transaction, so that the new version, its addresses, its job and the wake-up of
the worker stand or fall together. Nothing here asks Proxmox: what the catalogue knows is resolved, what the
world holds is the loop's affair. A dry run makes the same checks and returns the plan against the last
observation; the caller rolls the transaction back.
"""

from collections.abc import Mapping
from typing import Any

from zone9.base.errors import Refused
from zone9.base.ids import new_id
from zone9.model.asking import Answer, PlannedChange, Scope
from zone9.model.etags import etag, matches
from zone9.model.facts import Intent
from zone9.model.ports import Product, Resolved
from zone9.model.states import Convergence, Phase
from zone9.reconcile.requests import Requests
from zone9.reconcile.specs import check_name, merged, same_json, validated
from zone9.store import intents, quotas
from zone9.store.database import Connection, row
from zone9.store.looks import Looks
from zone9.store.rows import INTENT_COLUMNS, intent_of
from zone9.store.waking import emit


class Asking(Requests):
    """Is the one way by which intent changes."""

    async def create(
        self,
        connection: Connection,
        scope: Scope,
        kind: str,
        name: str,
        spec: Mapping[str, Any],
        *,
        dry_run: bool = False,
        cause: str = "request",
    ) -> Answer:
        """Raises Refused when the name is taken, the spec is wrong, or something it names is not there."""
        product = self._product(kind, scope)
        check_name(name)
        asked = validated(product, spec)
        id_ = new_id(product.prefix)
        project = None if product.is_global else scope.project
        await intents.insert(connection, id=id_, kind=kind, project=project, name=name, spec=asked)
        await quotas.check(connection, project=project, kind=kind)
        fresh = await intents.load_for_change(connection, id_)
        resolved = await self._resolve(connection, product, name, asked, fresh, None)
        return await self._record(
            connection, product, fresh, None, name, asked, resolved, scope, cause=cause, dry_run=dry_run
        )

    async def change(
        self,
        connection: Connection,
        scope: Scope,
        kind: str,
        ref: str,
        *,
        name: str | None = None,
        patch: Mapping[str, Any] | None = None,
        if_match: str | None = None,
        dry_run: bool = False,
        cause: str = "request",
    ) -> Answer:
        """`patch` is a JSON merge patch (RFC 7396) of the spec."""
        product = self._product(kind, scope)
        before = await self._find(connection, scope, product, ref)
        self._check_match(before, if_match, name, patch)
        asked = validated(product, merged(before.spec, patch or {}))
        wanted = before.name if name is None else name
        check_name(wanted)
        if wrong := product.problems(before.spec, asked):
            raise Refused(wrong[0].message, code=wrong[0].code, fields=wrong, **wrong[0].words)
        return await self._apply(
            connection, product, before, wanted, asked, scope, cause=cause, dry_run=dry_run
        )

    async def act(
        self,
        connection: Connection,
        scope: Scope,
        kind: str,
        ref: str,
        action: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
    ) -> Answer:
        """Carries out a named change of intent, such as `restart`."""
        product = self._product(kind, scope)
        if action not in product.actions:
            raise Refused(
                f"a {kind} has no action {action}",
                code="unknown_action",
                status=404,
                kind=kind,
                action=action,
            )
        before = await self._find(connection, scope, product, ref)
        asked = product.actions[action]
        spec = validated(product, asked.change(before, body))
        if asked.phase is Phase.DELETING and before.phase is not Phase.DELETED:
            await _refuse_used(connection, before)
            return await self._end(connection, product, before, spec, scope, cause=action, dry_run=dry_run)
        return await self._apply(
            connection,
            product,
            before,
            before.name,
            spec,
            scope,
            cause=action,
            dry_run=dry_run,
        )

    async def delete(
        self,
        connection: Connection,
        scope: Scope,
        kind: str,
        ref: str,
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """Writes the tombstone version. Refused while protected, or while something stands on it."""
        product = self._product(kind, scope)
        before = await self._find(connection, scope, product, ref)
        self._check_match(before, if_match, None, None)
        refuse_owned(before)
        if before.phase is Phase.DELETING:
            return await self._again(connection, before, scope, kind="delete")
        if before.spec.get("protected"):
            raise Refused(
                f"{before.name} is protected; take the protection away first",
                code="protected",
                status=409,
                name=before.name,
            )
        await _refuse_used(connection, before)
        return await self._end(
            connection, product, before, before.spec, scope, cause="delete", dry_run=dry_run
        )

    # -- parts ---------------------------------------------------------------------------------------

    async def _end(
        self,
        connection: Connection,
        product: Product,
        before: Intent,
        spec: Mapping[str, Any],
        scope: Scope,
        *,
        cause: str,
        dry_run: bool,
    ) -> Answer:
        refuse_owned(before)
        return await self._record(
            connection,
            product,
            before,
            before,
            before.name,
            spec,
            Resolved(before.resolved),
            scope,
            cause=cause,
            dry_run=dry_run,
            phase=Phase.DELETING,
        )

    async def _apply(
        self,
        connection: Connection,
        product: Product,
        before: Intent,
        name: str,
        asked: Mapping[str, Any],
        scope: Scope,
        *,
        cause: str,
        dry_run: bool,
    ) -> Answer:
        refuse_owned(before)
        if before.phase is Phase.DELETING:
            raise Refused(f"{before.name} is being deleted", code="deleting", status=409, name=before.name)
        resolved = await self._resolve(connection, product, name, asked, before, before)
        same = same_json(before.spec, resolved.spec or asked) and same_json(before.resolved, resolved.facts)
        if same and name == before.name and not dry_run:
            return await self._nothing_new(connection, product, before, scope)
        if name != before.name:
            other = await row(
                connection,
                """
                SELECT 1 AS one FROM resources WHERE kind = :kind AND name = :name AND phase <> 'deleted' AND id <> :id
                  AND project IS NOT DISTINCT FROM CAST(:project AS text)
                """,
                kind=product.kind,
                name=name,
                id=before.id,
                project=before.project,
            )
            if other is not None:
                raise Refused(
                    f"there is a {product.kind} named {name} already",
                    code="name_taken",
                    status=409,
                    kind=product.kind,
                    name=name,
                )
        return await self._record(
            connection, product, before, before, name, asked, resolved, scope, cause=cause, dry_run=dry_run
        )

    async def _nothing_new(
        self, connection: Connection, product: Product, before: Intent, scope: Scope
    ) -> Answer:
        """The same was asked again: nothing to do when applied, the open job when under way, a new try when failed."""
        if before.applied_version == before.version or not product.outside:
            return Answer(before.id, before.version, None)
        return await self._again(connection, before, scope, kind="apply")

    async def _again(self, connection: Connection, before: Intent, scope: Scope, *, kind: str) -> Answer:
        """Answers to what was asked already; a version that was given up is tried once more."""
        if before.given_up_version == before.version or before.convergence is Convergence.FAILED:
            await intents.ask_again(connection, before.id)
        return Answer(before.id, before.version, await self._job_for(connection, before, scope, kind=kind))

    async def _resolve(
        self,
        connection: Connection,
        product: Product,
        name: str,
        asked: Mapping[str, Any],
        fresh: Intent,
        before: Intent | None,
    ) -> Resolved:
        look = Looks(connection, resource=fresh.id, project=fresh.project, sealer=self._sealer)
        return await product.resolve(name, asked, before, look)

    async def _record(
        self,
        connection: Connection,
        product: Product,
        current: Intent,
        before: Intent | None,
        name: str,
        asked: Mapping[str, Any],
        resolved: Resolved,
        scope: Scope,
        *,
        cause: str,
        dry_run: bool,
        phase: Phase = Phase.LIVE,
    ) -> Answer:
        spec = resolved.spec or asked
        here_only = not product.outside
        version = await intents.record_version(
            connection,
            before,
            id=current.id,
            name=name,
            spec=spec,
            resolved=resolved,
            phase=phase,
            actor=scope.actor,
            cause=cause,
            applied=here_only,
        )
        if dry_run:
            return await self._rehearsal(connection, product, current.id, version)
        if here_only:
            await emit(
                connection,
                "intent",
                project=current.project,
                resource=current.id,
                data={"intent_version": version},
            )
            if phase is Phase.DELETING:
                await intents.delete_at_once(connection, current)
            return Answer(current.id, version, None)
        kind = "delete" if phase is Phase.DELETING else "apply"
        job = await intents.open_job(
            connection,
            kind=kind,
            resource=current.id,
            project=current.project,
            version=version,
            actor=scope.actor,
        )
        return Answer(current.id, version, job)

    async def _rehearsal(self, connection: Connection, product: Product, id_: str, version: int) -> Answer:
        """Plans the new version against the last observation, inside a transaction that will be undone."""
        if not product.outside:
            return Answer(id_, version, None, plan=())
        found = await row(
            connection,
            f"SELECT {INTENT_COLUMNS}, observed FROM resources WHERE id = :id",
            id=id_,
        )
        assert found is not None
        plan = product.plan(intent_of(found), product.truth_of(found["observed"]))
        steps = tuple(PlannedChange(step.name, str(step.change), step.args) for step in plan.steps)
        diffs = tuple(diff.as_json() for diff in plan.diffs)
        return Answer(id_, version, None, plan=steps, diffs=diffs)

    def _check_match(
        self, before: Intent, if_match: str | None, name: str | None, patch: Mapping[str, Any] | None
    ) -> None:
        current = etag(self._epoch, before.version, before.name, before.spec)
        if if_match is None or matches(if_match, current):
            return
        asked = {key: value for key, value in (patch or {}).items() if before.spec.get(key) != value}
        diff = {key: {"yours": value, "current": before.spec.get(key)} for key, value in asked.items()}
        if name is not None and name != before.name:
            diff["name"] = {"yours": name, "current": before.name}
        raise Refused(
            f"{before.name} was changed meanwhile; it is now at version {before.version}",
            code="etag_mismatch",
            status=412,
            name=before.name,
            version=before.version,
            etag=current,
            diff=diff,
        )


async def _refuse_used(connection: Connection, intent: Intent) -> None:
    if users := await intents.users_of(connection, intent.id):
        raise Refused(
            f"{intent.name} is in use by {', '.join(users)}",
            code="in_use",
            status=409,
            name=intent.name,
            users=", ".join(users),
        )


def refuse_owned(intent: Intent) -> None:
    """Raises Refused for a part of a composite product: it changes by its owner alone."""
    if intent.owner is not None:
        raise Refused(
            f"{intent.name} is a part of another resource and changes with it",
            code="owned",
            status=409,
            name=intent.name,
        )

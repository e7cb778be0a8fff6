"""Requests that change no intent: try again, measure, cancel. They share the look-up of what they are about."""

from collections.abc import Mapping

from zone9.base.errors import Refused
from zone9.base.ids import is_id, new_id
from zone9.base.sealing import Sealer
from zone9.model.asking import Answer, Scope
from zone9.model.facts import Intent
from zone9.model.ports import Product
from zone9.model.states import Phase
from zone9.store import audit, intents
from zone9.store.database import Connection, Database, row, run
from zone9.store.rows import INTENT_COLUMNS, intent_of
from zone9.store.waking import defer_verify, emit, wake


class Requests:
    """Is what can be asked of a resource without a new version of it."""

    def __init__(
        self, database: Database, registry: Mapping[str, Product], sealer: Sealer | None, epoch: int
    ) -> None:
        self.database = database
        self.registry = registry
        self._sealer = sealer
        self._epoch = epoch

    async def reconcile(self, connection: Connection, scope: Scope, kind: str, ref: str) -> Answer:
        """Starts a version that was given up again; for any other it is a wake-up with a job."""
        product = self._product(kind, scope)
        before = await self._find(connection, scope, product, ref)
        if not product.outside:
            return Answer(before.id, before.version, None)
        await intents.ask_again(connection, before.id)
        kind_of_job = "delete" if before.phase is Phase.DELETING else "apply"
        job = await self._job_for(connection, before, scope, kind=kind_of_job)
        await self._note(connection, scope, "reconcile", before)
        return Answer(before.id, before.version, job)

    async def verify(self, connection: Connection, scope: Scope, kind: str, ref: str) -> Answer:
        """Opens a measuring job, or returns the one that is open. It takes no lock and changes nothing."""
        product = self._product(kind, scope, writes=False)
        before = await self._find(connection, scope, product, ref, lock=False)
        if not product.outside:
            return Answer(before.id, before.version, None)
        job = await self._open_verify(
            connection, before.id, before.project, before.version, actor=scope.actor
        )
        if job is not None:
            await self._note(connection, scope, "verify", before)
            return Answer(before.id, before.version, job)
        open_one = await row(
            connection,
            """
            SELECT id FROM jobs WHERE resource = :id AND kind = 'verify' AND status IN ('queued', 'running', 'waiting')
            """,
            id=before.id,
        )
        return Answer(before.id, before.version, None if open_one is None else open_one["id"])

    async def verify_stale(self, connection: Connection, kind: str, resource: str) -> str | None:
        """Returns the measuring job of a resource whose reading is older than its budget; opens one, as `system`.

        Whoever looks at a page asks for nothing, so it is at most one job within a budget, however often it is opened.
        """
        product = self.registry[kind]
        if not product.outside:
            return None
        found = await row(
            connection,
            """
            SELECT r.id, r.project, r.intent_version,
                (SELECT j.id FROM jobs j WHERE j.resource = r.id AND j.kind = 'verify'
                   AND j.status IN ('queued', 'running', 'waiting')) AS open,
                EXISTS (SELECT FROM jobs j WHERE j.resource = r.id AND j.kind = 'verify'
                   AND j.created_at > z9_now() - make_interval(secs => :budget)) AS lately
            FROM resources r WHERE r.id = :id AND r.phase <> 'deleted'
              AND coalesce(r.measured_at, r.created_at) < z9_now() - make_interval(secs => :budget)
            """,
            id=resource,
            budget=product.budget_seconds,
        )
        if found is None:
            return None
        if found["open"] is not None or found["lately"]:
            return None if found["open"] is None else str(found["open"])
        return await self._open_verify(
            connection, found["id"], found["project"], found["intent_version"], actor="system"
        )

    async def _open_verify(
        self, connection: Connection, resource: str, project: str | None, version: int, *, actor: str
    ) -> str | None:
        """Returns the new job, or None where one is open."""
        job = new_id("job")
        made = await run(
            connection,
            """
            INSERT INTO jobs (id, kind, resource, project, intent_version, actor)
            VALUES (:id, 'verify', :resource, :project, :version, :actor) ON CONFLICT DO NOTHING
            """,
            id=job,
            resource=resource,
            project=project,
            version=version,
            actor=actor,
        )
        if not made:
            return None
        data: dict[str, object] = {"job": job, "status": "queued"}
        await emit(connection, "job", project=project, resource=resource, data=data)
        await defer_verify(connection, job)
        return job

    async def cancel(self, connection: Connection, scope: Scope, job: str) -> None:
        """Ends an open job; its version is given up, so that the loop does not go on with it unasked."""
        found = await row(
            connection,
            """
            SELECT id, resource, project, kind, status, intent_version FROM jobs
            WHERE id = :id AND (project IS NOT DISTINCT FROM :project OR project IS NULL) FOR UPDATE
            """,
            id=job,
            project=scope.project,
        )
        if found is None:
            raise Refused("there is no such job", code="not_found", status=404)
        if found["status"] not in {"queued", "running", "waiting"}:
            raise Refused(
                f"the job is {found['status']} already",
                code="job_ended",
                status=409,
                status_word=found["status"],
            )
        await run(
            connection, "UPDATE jobs SET status = 'canceled', finished_at = z9_now() WHERE id = :id", id=job
        )
        if found["kind"] != "verify":
            await run(
                connection,
                "UPDATE resources SET given_up_version = intent_version WHERE id = :id AND intent_version = :version",
                id=found["resource"],
                version=found["intent_version"],
            )
            # Whoever is at it goes round once more and stops; otherwise somebody looks what has become of it.
            await wake(connection, [found["resource"]])
        data: dict[str, object] = {"job": job, "status": "canceled"}
        await emit(connection, "job", project=found["project"], resource=found["resource"], data=data)
        await audit.append(
            connection,
            actor=scope.actor,
            action="cancel",
            kind="job",
            name=job,
            resource=found["resource"],
            project=found["project"],
            intent_version=found["intent_version"],
        )

    async def _note(self, connection: Connection, scope: Scope, action: str, about: Intent) -> None:
        await audit.append(
            connection,
            actor=scope.actor,
            action=action,
            kind=about.kind,
            resource=about.id,
            name=about.name,
            project=about.project,
            intent_version=about.version,
        )

    def _product(self, kind: str, scope: Scope, *, writes: bool = True) -> Product:
        product = self.registry.get(kind)
        if product is None:
            raise Refused(f"there is no kind {kind}", code="unknown_kind", status=404, kind=kind)
        if writes and not scope.may("admin" if product.is_global else "operator"):
            raise Refused("this token may not do that", code="forbidden", status=403)
        if not product.is_global and scope.project is None:
            raise Refused("name a project", code="project_needed", status=400)
        return product

    async def _find(
        self, connection: Connection, scope: Scope, product: Product, ref: str, *, lock: bool = True
    ) -> Intent:
        column = "id" if is_id(ref, product.prefix) else "name"
        found = await row(
            connection,
            f"""
            SELECT id FROM resources WHERE kind = :kind AND {column} = :ref AND phase <> 'deleted'
              AND (project IS NULL OR project = :project)
            """,
            kind=product.kind,
            ref=ref,
            project=scope.project,
        )
        if found is None:
            raise Refused(
                f"there is no {product.kind} {ref}", code="not_found", status=404, kind=product.kind, ref=ref
            )
        if lock:
            return await intents.load_for_change(connection, found["id"])
        loaded = await row(
            connection,
            f"SELECT {INTENT_COLUMNS} FROM resources WHERE id = :id",
            id=found["id"],
        )
        assert loaded is not None
        return intent_of(loaded)

    async def _job_for(self, connection: Connection, intent: Intent, scope: Scope, *, kind: str) -> str:
        open_one = await intents.open_job_of(connection, intent.id, intent.version)
        if open_one is not None:
            return open_one
        return await intents.open_job(
            connection,
            kind=kind,
            resource=intent.id,
            project=intent.project,
            version=intent.version,
            actor=scope.actor,
        )

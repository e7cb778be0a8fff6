"""How a run's findings are written down: its verdict, the end of its job, the burial of what is proven absent.

A verdict never replaces a younger one, and a job that has ended never changes again.
"""

from collections.abc import Mapping
from typing import Any

from zone9.model.facts import Intent, Message, Verdict
from zone9.model.states import Convergence
from zone9.store import allocations, devices, drifts
from zone9.store.database import Connection, as_json, row, run
from zone9.store.waking import emit


async def store_verdict(
    connection: Connection,
    intent: Intent,
    verdict: Verdict,
    observed: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None = None,
) -> bool:
    """Writes a verdict unless a younger one is there; says whether it did."""
    applied = verdict.convergence is Convergence.APPLIED
    stored = await row(
        connection,
        """
        UPDATE resources SET convergence = :convergence, health = :health,
            message = CASE WHEN :convergence = 'failed' AND CAST(:message AS jsonb) IS NULL THEN message
                           ELSE CAST(:message AS jsonb) END,
            diffs = CAST(:diffs AS jsonb), observed_intent_version = :version, measured_at = :measured_at,
            witness = :witness, observed = coalesce(CAST(:observed AS jsonb), observed),
            observed_at = CASE WHEN CAST(:observed AS jsonb) IS NULL THEN observed_at ELSE :measured_at END,
            applied_version = CASE WHEN :applied THEN :version ELSE applied_version END,
            applied_at = CASE WHEN :applied AND applied_version IS DISTINCT FROM :version THEN z9_now()
                              ELSE applied_at END,
            applied = coalesce(CAST(:fields AS jsonb), applied),
            applied_read_at = CASE WHEN CAST(:fields AS jsonb) IS NULL THEN applied_read_at ELSE :measured_at END
        WHERE id = :id AND intent_version = :version
          AND (measured_at IS NULL OR (observed_intent_version, measured_at) <= (:version, :measured_at))
        RETURNING (SELECT r.convergence || r.health FROM resources r WHERE r.id = :id) AS was, applied_at, changed_at
        """,
        id=intent.id,
        convergence=str(verdict.convergence),
        health=str(verdict.health),
        message=as_json(verdict.message.as_json()) if verdict.message else None,
        diffs=as_json([diff.as_json() for diff in verdict.diffs]),
        version=verdict.observed_intent_version,
        measured_at=verdict.measured_at,
        witness=verdict.witness,
        observed=None if observed is None else as_json(dict(observed)),
        applied=applied,
        fields=as_json(dict(values)) if applied and values else None,
    )
    if stored is None:
        return False
    if stored["was"] != str(verdict.convergence) + str(verdict.health) or verdict.diffs:
        data: dict[str, object] = {"convergence": str(verdict.convergence), "health": str(verdict.health)}
        await emit(connection, "verdict", project=intent.project, resource=intent.id, data=data)
    return True


async def bury(connection: Connection, intent: Intent, *, left: bool = False) -> None:
    """Ends a resource whose absence was read back: its VMID is burnt, its addresses rest.

    `left`: nothing was read; it was let go of, its machine is nobody's, and its addresses stay out of use.
    """
    await run(
        connection,
        """
        UPDATE resources SET phase = 'deleted', deleted_at = z9_now(), next_reconcile_at = NULL,
            applied_version = intent_version, applied_at = z9_now() WHERE id = :id
        """,
        id=intent.id,
    )
    await run(connection, "DELETE FROM edges WHERE resource = :id", id=intent.id)
    await run(
        connection,
        "UPDATE vmids SET state = 'burnt', why = 'deleted', at = z9_now() WHERE resource = :id AND state = 'held'",
        id=intent.id,
    )
    await run(connection, "DELETE FROM leases WHERE holder = :id", id=intent.id)
    await allocations.release_addresses(connection, intent.id, left=left)
    await drifts.end(connection, intent.id)
    await devices.end(connection, intent.id)
    await emit(connection, "deleted", project=intent.project, resource=intent.id, data={})


async def end_job(
    connection: Connection,
    job: str | None,
    intent: Intent,
    status: str,
    *,
    needs: str | None,
    error: Message | None,
    verdict: Verdict | None,
) -> None:
    """Moves the job on; evidence is the verdict that ended it."""
    changed = await row(
        connection,
        """
        UPDATE jobs SET status = :status, needs = CAST(:needs AS text), error = CAST(:error AS jsonb),
            evidence = coalesce(CAST(:evidence AS jsonb), evidence), started_at = coalesce(started_at, z9_now()),
            finished_at = CASE WHEN :status IN ('succeeded', 'failed') THEN z9_now() END,
            steps = CASE WHEN jsonb_array_length(steps) > 0 AND :status IN ('succeeded', 'failed') THEN
                jsonb_set(steps, '{-1,status}', CASE WHEN :status = 'failed' THEN '"failed"' ELSE '"done"' END::jsonb)
                ELSE steps END
        WHERE id = :id AND status IN ('queued', 'running', 'waiting')
        RETURNING (SELECT j.status FROM jobs j WHERE j.id = :id) AS was
        """,
        id=job,
        status=status,
        needs=needs,
        error=as_json(error.as_json()) if error else None,
        evidence=None if verdict is None else as_json(verdict.as_json()),
    )
    if changed is not None and changed["was"] != status:
        await emit(
            connection,
            "job",
            project=intent.project,
            resource=intent.id,
            data={"job": job, "status": status},
        )

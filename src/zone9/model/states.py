"""The closed sets of design section 1: three fields make a state; a job has one status."""

from enum import StrEnum


class Origin(StrEnum):
    """Tells who was first: an intent, or the machine itself."""

    MANAGED = "managed"
    ADOPTED = "adopted"


class Convergence(StrEnum):
    """Tells how far the newest intent has come."""

    PENDING = "pending"
    APPLYING = "applying"
    PENDING_RESTART = "pending_restart"
    APPLIED = "applied"
    FAILED = "failed"
    DELETING = "deleting"


class Health(StrEnum):
    """Tells what the last measurement found."""

    OK = "ok"
    DEGRADED = "degraded"
    DRIFTED = "drifted"
    OSCILLATING = "oscillating"
    MISSING = "missing"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """Is a resource's life: deletion is a phase with a version of its own, not the removal of a row."""

    LIVE = "live"
    DELETING = "deleting"
    DELETED = "deleted"


class JobStatus(StrEnum):
    """Is a job's status; the last four are terminal and never change again."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    SUPERSEDED = "superseded"


OPEN_JOBS = (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.WAITING)


class ChangeClass(StrEnum):
    """Says what a repair costs (design section 2): set at once, a restart, a rebuild, or a question first."""

    HOT = "hot"
    PENDING_RESTART = "pending_restart"
    REBUILD = "rebuild"
    NEVER = "never"

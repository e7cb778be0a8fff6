"""The one place where states become what people read, in both languages.

A resource can be applying and degraded at once; `chip` picks the one word to show. A reading that is older
than its budget is `unknown`, and that is derived here, when it is read: nobody has to write it.
"""

from datetime import datetime, timedelta

from zone9.model.states import Convergence, Health, Origin

PRECEDENCE = (
    "deleting", "duplicate", "missing", "unknown", "failed", "oscillating", "degraded", "drifted",
    "applying", "pending", "pending_restart", "applied",
)  # fmt: skip

TURKISH = {
    "managed": "yönetilen",
    "adopted": "sahiplenilmiş",
    "pending": "beklemede",
    "applying": "uygulanıyor",
    "pending_restart": "yeniden başlatma bekliyor",
    "applied": "uygulandı",
    "failed": "başarısız",
    "deleting": "siliniyor",
    "deleted": "silindi",
    "ok": "sağlıklı",
    "degraded": "sorunlu",
    "drifted": "sapmış",
    "oscillating": "çekişmeli",
    "missing": "kayıp",
    "duplicate": "kopya kimlik",
    "unknown": "ölçülmedi",
}


def fresh_health(
    health: Health, measured_at: datetime | None, now: datetime, budget_seconds: float
) -> Health:
    """Returns the health as of `now`: a reading older than its budget is `unknown`, whatever it said."""
    if measured_at is None or now - measured_at > timedelta(seconds=budget_seconds):
        return Health.UNKNOWN
    return health


def chip(origin: Origin, convergence: Convergence, health: Health, *, never_measured: bool = False) -> str:
    """Returns the one word for a state; `never_measured` keeps a brand-new resource at its convergence."""
    if origin is Origin.ADOPTED:
        return str(health)
    hidden = {"unknown"} if never_measured and convergence is not Convergence.APPLIED else set()
    candidates = {str(convergence), str(health)} - hidden
    return next(word for word in PRECEDENCE if word in candidates)


def in_language(word: str, language: str) -> str:
    """Returns a state's word in Turkish (`tr`) or English (anything else)."""
    return TURKISH[word] if language == "tr" else word.replace("_", " ")

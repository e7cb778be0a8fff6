"""The database's address in the forms that its users want."""

from zone9.base.errors import Never


def sync_url(url: str) -> str:
    """Returns the address for SQLAlchemy: psycopg 3, whatever scheme the operator wrote."""
    for scheme in ("postgresql://", "postgres://", "postgresql+psycopg://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + url[len(scheme) :]
    raise Never("the database address must begin with postgresql://", code="database_url")


def libpq_url(url: str) -> str:
    """Returns the address as libpq (and Procrastinate) wants it."""
    return "postgresql://" + sync_url(url).split("://", 1)[1]

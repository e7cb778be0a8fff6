"""Alembic migrations; each has a test from the previous version's data."""

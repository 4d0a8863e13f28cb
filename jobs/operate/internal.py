"""Internal kinds and keys of kinds: only the project's code makes such jobs and uses such keys."""

from __future__ import annotations

from uuid import UUID

from jobs import registry
from jobs.engine import sql
from jobs.errors import InvalidOption
from jobs.principals import By, Principal


def check_kind(kind: str, by: By, option: str = "kind") -> None:
    """Raise InvalidOption where the kind is internal and a person or a program asks.

    A plain name stands for the project's code, which may do anything.
    """
    if isinstance(by, Principal) and registry.is_internal(kind):
        raise InvalidOption(option, f"{kind!r} is an internal kind, for the project's code only")


def check_key(kind: str, by: By, key: object) -> None:
    """Raise InvalidOption where a person or a program gives a job an exclusive key of others."""
    owners = registry.owners(key) if isinstance(key, str) and key else []
    if isinstance(by, Principal) and owners and kind not in owners:
        words = f"{key!r} belongs to jobs of {owners[0]!r}, for the project's code only"
        raise InvalidOption("exclusive", words)


def check_replay(job_id: UUID, by: By, *changes: object) -> None:
    """Raise InvalidOption where a job of an internal kind would be replayed with any change."""
    if any(change is not None and change != {} for change in changes):
        for (kind,) in sql.rows("SELECT kind FROM jobs_job WHERE id = %s", [job_id]):
            check_kind(kind, by, "payload")

"""Who acts for which owner: users for themselves, API keys for their tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.acts import Principal

QUEUES = ("file-extract", "file-chunk", "file-embed")


def owner_of_user(pk: object) -> str:
    """Return the tenant for which a user's session acts."""
    return f"user:{pk}"


def covers(who: Principal, owner: str) -> bool:
    """Return whether the owner's documents lie within the principal's scope."""
    return all(who.scope.covers(owner, queue) for queue in QUEUES)

"""Which parts of flow control concern a job: the bits of its ``flow`` column.

A job without any is served by statements that look at nothing else.
"""

from __future__ import annotations

from enum import IntFlag


class Flow(IntFlag):
    """The bits; the functions in the database know them by number."""

    EXCLUSIVE = 1
    """Holds an exclusive key while it is queued or running."""
    LIMITED = 2
    """Counts against a limit, so that its end frees a place."""
    PACED = 4
    """Was admitted at a rate, so that its admission goes stale."""
    BATCH = 8
    """Is counted by a batch when it ends."""
    FOLLOWED = 16
    """Has children that wait for it."""
    EMITS = 32
    """Its moves are published as events; concerns nobody's admission."""
    KEYED = 64
    """Counts against a limit per key."""
    EXPIRES_WAITING = 128
    """Does not expire once it was claimed; concerns nobody's admission."""


PRIORITY_STEP_MS = 3000
"""One step of priority weighs as much as this long a wait."""
LANE_SEPARATOR = "\x1f"


def lane(tenant: str, kind: str) -> str:
    """The lane of a tenant's jobs of one kind."""
    return f"{tenant}{LANE_SEPARATOR}{kind}"

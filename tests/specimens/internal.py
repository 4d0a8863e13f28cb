"""Specimen handlers that outsiders may not use, or not twice."""

from __future__ import annotations

import jobs


class Internal(jobs.Payload, kind="test.internal", aliases=["test.inner"]):
    account: str = ""


class Unreplayable(jobs.Payload, kind="test.unreplayable"):
    pass


@jobs.handler(Internal, internal=True, max_attempts=1, own_keys="specimen:")
def internal(ctx: jobs.Context, payload: Internal) -> None:
    """Fails, so that there is something to replay."""
    raise ValueError(payload.account)


@jobs.handler(Unreplayable, replayable=False)
def unreplayable(ctx: jobs.Context, payload: Unreplayable) -> None:
    """Does nothing."""

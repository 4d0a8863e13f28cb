"""Specimen handlers that tell events."""

from __future__ import annotations

import random

from django.db import transaction

import jobs


class Tells(jobs.Payload, kind="test.tells"):
    number: int


class Moves(jobs.Payload, kind="test.moves"):
    number: int


@jobs.handler(Tells)
def tells(ctx: jobs.Context, payload: Tells) -> None:
    """Tells one event, with its success or with a transaction of its own."""
    if payload.number % 2:
        ctx.emit("test.told", {"number": payload.number}, key="")
    else:
        with transaction.atomic():
            ctx.emit("test.told", {"number": payload.number}, key=f"k{random.randrange(5)}")


@jobs.handler(Moves, emits=True, backoff=jobs.backoff.Fixed(0.05))
def moves(ctx: jobs.Context, payload: Moves) -> None:
    """Fails at its first attempt, where its number is odd."""
    if payload.number % 2 and ctx.failures == 0:
        raise ValueError("as told")

"""What every test of the outbox starts from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction

import jobs
from tests.jobs.outbox.telling import Telling, Told


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    @jobs.handler(Telling, max_attempts=2, backoff=jobs.backoff.Fixed(60))
    def telling(ctx: jobs.Context, payload: Telling) -> None:
        if payload.how == "atomic":
            with transaction.atomic():
                ctx.emit("order.paid", {"n": 1})
        else:
            ctx.emit("order.paid", {"n": 1}, at_once=payload.how == "at once")
        if payload.fail:
            raise ValueError("secret of ann@example.com")

    @jobs.handler(Told, emits=True, max_attempts=2, backoff=jobs.backoff.Fixed(60))
    def told(ctx: jobs.Context, payload: Told) -> None:
        """Its moves are told."""

    yield
    jobs.registry.unregister("test.telling")
    jobs.registry.unregister("test.told")

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import jobs
from jobs import registry
from tests.privacy import vault
from tests.privacy.vault import Register


@pytest.fixture
def keys(settings: Any) -> Any:
    """The key ring has one key, ``old``."""
    settings.JOBS = vault.KEYS
    return settings


@pytest.fixture
def people(db: None, keys: Any) -> type[vault.Person]:
    vault.create_tables()
    return vault.Person


@pytest.fixture
def register(db: None, keys: Any) -> Iterator[type[Register]]:
    """The kind has a handler, which does what ``how`` says."""

    @jobs.handler(Register, max_attempts=2, backoff=jobs.backoff.Immediate(), emits=True)
    def handle(ctx: jobs.Context, payload: Register) -> Any:
        ctx.log.info("working for %s", payload.cpf)
        ctx.emit("crm.registered", {"cpf": payload.cpf, "number": payload.number})
        ctx.emit("crm.now", payload, at_once=True)
        ctx.progress(1, 1, note=f"did {payload.cpf}")
        if payload.how == "raise":
            raise ValueError(f"bad number {payload.cpf!r} of {payload.contact}")
        if payload.how == "log":
            try:
                raise LookupError(payload.cpf)
            except LookupError:
                ctx.log.exception("cannot find %s", payload.cpf)
        if payload.how == "snooze" and ctx.attempt == 1:
            raise jobs.Snooze(0.0, f"{payload.cpf} is not there yet")
        if payload.how == "unrecoverable":
            try:
                int(payload.cpf)
            except ValueError as error:
                raise jobs.Unrecoverable(f"never for {payload.cpf}") from error
        return {"given": payload.cpf, "text": f"served {payload.cpf}", "number": payload.number}

    yield Register
    registry.unregister(Register.kind)

"""What every test of limits starts from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import jobs
from jobs import queues
from jobs.engine.admission import sync_limits
from tests.jobs.limits.kinds import Declare, forget


@pytest.fixture(autouse=True)
def none_of_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the domain apps declare is set aside."""
    monkeypatch.setattr(queues, "_declared", {})


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Registers the handler of a kind with limits, and writes the limits down."""
    with ExitStack() as stack:

        def register(payload: type[jobs.Payload], do: Any = None, **rules: Any) -> None:
            @jobs.handler(payload, **rules)
            def run(ctx: jobs.Context, payload: Any) -> Any:
                return do(ctx) if do else None

            stack.callback(forget, payload.kind)
            sync_limits()

        yield register

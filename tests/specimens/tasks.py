"""Functions as jobs."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from pydantic import Field

import jobs

sent: list[Any] = []
"""What the tasks of this process were called with."""


@jobs.task(queue="mail", max_attempts=2)
def receipt(order: int, day: date | None = None, *, copy: bool = False) -> str:
    sent.append((order, day, copy))
    return f"receipt {order}"


@jobs.task
async def remind(ctx: jobs.Context, name: Annotated[str, Field(max_length=3)]) -> None:
    sent.append((ctx.job_id, name))


@jobs.task
def told(token: jobs.Sensitive[str]) -> None:
    sent.append(token)

"""Schedules for tests, and the slots that became jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from jobs.models import Schedule
from jobs.operate import schedules
from tests.jobs.factories import sql
from tests.specimens.handlers import Noop

START = datetime(2030, 5, 6, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WHO: dict[str, Any] = {"by": "ada", "reason": "a test"}


Clock = Callable[[datetime | None], None]


def made(name: str = "tidy", **options: Any) -> Schedule:
    """A schedule made by a person; each minute unless told otherwise."""
    if "interval" not in options:
        options.setdefault("cron", "* * * * *")
    return schedules.create(name, options.pop("payload", Noop()), **WHO, **options)


def slots(name: str = "tidy") -> list[datetime]:
    """The slots that have a job, in the order of their enqueue."""
    return [
        slot
        for (slot,) in sql(
            "SELECT j.slot_at FROM jobs_job j JOIN jobs_schedule s ON s.id = j.schedule_id "
            "WHERE s.name = %s AND j.slot_at IS NOT NULL ORDER BY j.created_at, j.id",
            [name],
        )
    ]


def minutes(*numbers: float) -> list[datetime]:
    return [START + n * MINUTE for n in numbers]


def race(work: Callable[[int], None], count: int) -> None:
    """The work of each thread is done, on a connection of its own."""
    errors: list[BaseException] = []
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            gate.wait()
            work(number)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []

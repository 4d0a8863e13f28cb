"""Jobs that enter, and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jobs
from jobs.limits import Unique
from tests.specimens.handlers import Echo

NOW = datetime(2040, 5, 6, 7, 8, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
SetClock = Callable[[datetime | None], None]
SCOPES: list[Any] = ["unfinished", HOUR, "waiting", "ever"]


def enqueue(text: str = "", key: str = "k", for_: Any = "unfinished", **options: Any) -> Any:
    on_conflict = options.pop("on_conflict", None)
    unique = Unique(key, for_=for_, on_conflict=on_conflict)
    return jobs.enqueue(Echo(text=text), unique=unique, **options)


def count(**where: Any) -> int:
    return jobs.Job.objects.filter(**where).count()

"""The same jobs as plain functions, for the rq workers that the engine is compared with."""

from __future__ import annotations

import time

from benchmarks import records


def noop() -> None:
    records.append(records.NOOP)


def stamp(sent: float) -> None:
    records.append(records.STAMP, sent)


def sleep(seconds: float) -> None:
    time.sleep(seconds)
    records.append(records.SLEEP)


def fail() -> None:
    records.append(records.FAIL)
    raise ValueError("as told")

"""Jobs that tell events, while the dispatcher relays them into the feed."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.drains import CHUNK, chunks, drain_engine, quietest
from benchmarks.result import Check, Figures, Result, median_run, paired_ratio

WINDOW = 120.0
PATIENCE = 60.0


def drain(b: Bench) -> Result:
    """Handlers that emit one event each, kinds whose moves are told, and plain ones, in turns."""
    size = 2000 if b.quick else 20_000
    plain, telling, told = [], [], []
    for _ in range(1 if b.quick else 3):
        plain.append(quietest(b, lambda: drain_engine(b, size, WINDOW)))
        telling.append(quietest(b, lambda: _drain(b, size, "Tell", 1)))
        told.append(quietest(b, lambda: _drain(b, size, "Told", 2)))
    ratio = paired_ratio(telling, plain)
    checks = [
        Check("one event per handler, x rate of plain jobs", ratio, 0.5, 0.7),
        Check("every move told, x rate of plain jobs", paired_ratio(told, plain), 0.4, 0.6),
    ]
    figures = {
        "jobdesk": median_run(telling),
        "jobdesk_moves": median_run(told),
        "jobdesk_silent": median_run(plain),
    }
    return Result(figures, checks, ratio)


def _drain(b: Bench, size: int, kind: str, each: int) -> Figures:
    import jobs
    from benchmarks.specimens import handlers

    payload: type[jobs.Payload] = getattr(handlers, kind)

    def enqueue(count: int) -> None:
        for chunk in chunks((payload() for _ in range(count)), CHUNK):
            jobs.enqueue_many(chunk)

    figures = drain_engine(b, size, WINDOW, enqueue=enqueue)
    figures["untold"] = b.sql("SELECT count(*) FROM jobs_outbox")
    figures["relay_s"] = _relay_rest(b)
    written = b.sql("SELECT count(*) FROM jobs_feed")
    if figures["jobs"] >= size and written != size * each:
        raise RuntimeError(f"{size} jobs ran, but {written} events were told\n{b.last_words()}")
    return figures


def _relay_rest(b: Bench) -> float:
    """Seconds that a relay needs for what the dispatcher has left."""
    from jobs.engine.relay import Relay

    began = time.monotonic()
    Relay().work(PATIENCE)
    return round(time.monotonic() - began, 3)

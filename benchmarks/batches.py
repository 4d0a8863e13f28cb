"""A batch that drains: its counters change with every member and must not be what all wait for."""

from __future__ import annotations

from uuid import UUID

from benchmarks.bench import Bench
from benchmarks.drains import CHUNK, chunks, drain_engine, quietest
from benchmarks.result import Check, Figures, Result, median_run, paired_ratio

WINDOW = 300.0
"""Seconds for a whole drain: a batch that is not drained is not done."""


def drain(b: Bench) -> Result:
    """100 000 members of one batch, beside as many jobs without one, in turns."""
    size = 2000 if b.quick else 100_000
    alone, members = [], []
    for _ in range(1 if b.quick else 3):
        alone.append(quietest(b, lambda: drain_engine(b, size, WINDOW)))
        members.append(quietest(b, lambda: _drain_batch(b, size)))
    figures = {"jobdesk": median_run(members), "jobdesk_alone": median_run(alone)}
    ratio = paired_ratio(members, alone)
    return Result(figures, [Check("x rate without a batch", ratio, 0.85, 0.95)], ratio)


def _drain_batch(b: Bench, size: int) -> Figures:
    import jobs
    from benchmarks.specimens.handlers import Noop

    batches: list[UUID] = []

    def enqueue(count: int) -> None:
        with jobs.batch("measured") as batch:
            for chunk in chunks((Noop() for _ in range(count)), CHUNK):
                batch.add_many(chunk)
        batches.append(batch.id)

    figures = drain_engine(b, size, WINDOW, enqueue=enqueue)
    _must_be_done(b, batches[0], size)
    return figures


def _must_be_done(b: Bench, batch_id: UUID, size: int) -> None:
    from jobs.operate.batches import progress

    p = progress(batch_id)
    counted = (p.state, p.total, p.succeeded, p.failed, p.cancelled, p.expired, p.generation)
    if counted != ("done", size, size, 0, 0, 0, 1):
        raise RuntimeError(f"a batch of {size} drained, but it says {counted}\n{b.last_words()}")

"""What limits cost where they hold nothing back."""

from __future__ import annotations

from benchmarks.bench import WITH_LIMITS, Bench
from benchmarks.drains import CHUNK, chunks, drain_engine, quietest
from benchmarks.result import Check, Figures, Result, median_run, paired_ratio

WINDOW = 120.0


def cost(b: Bench) -> Result:
    """Jobs of a kind with a roomy limit, jobs with a key each, and plain ones, in turns."""
    size = 2000 if b.quick else 50_000
    plain, limited, keyed = [], [], []
    for _ in range(1 if b.quick else 3):
        plain.append(quietest(b, lambda: drain_engine(b, size, WINDOW)))
        limited.append(quietest(b, lambda: _drain_limited(b, size)))
        keyed.append(quietest(b, lambda: _drain_keyed(b, size)))
    checks = [
        Check("concurrency limit, x rate of plain jobs", paired_ratio(limited, plain), 0.8, 0.95),
        Check("exclusive keys, x rate of plain jobs", paired_ratio(keyed, plain), 0.4, 0.7),
    ]
    figures = {
        "jobdesk": median_run(plain),
        "jobdesk_limited": median_run(limited),
        "jobdesk_exclusive": median_run(keyed),
    }
    return Result(figures, checks)


def _drain_limited(b: Bench, size: int) -> Figures:
    import jobs
    from benchmarks.limited.handlers import Roomy

    def enqueue(count: int) -> None:
        for chunk in chunks((Roomy() for _ in range(count)), CHUNK):
            jobs.enqueue_many(chunk)

    figures = drain_engine(b, size, WINDOW, enqueue=enqueue, variables=WITH_LIMITS)
    if not b.sql("SELECT at_once FROM jobs_limiter WHERE scope = 'kind:bench.roomy'"):
        raise RuntimeError("the limit was not in force")
    return figures


def _drain_keyed(b: Bench, size: int) -> Figures:
    import jobs
    from benchmarks.specimens.handlers import Noop

    def enqueue(count: int) -> None:
        made = (jobs.Draft(Noop(), exclusive=f"key-{n}") for n in range(count))
        for chunk in chunks(made, CHUNK):
            jobs.enqueue_many(chunk)

    figures = drain_engine(b, size, WINDOW, enqueue=enqueue)
    held = b.sql("SELECT count(*) FROM jobs_slot")
    if figures["jobs"] >= size and held:
        raise RuntimeError(f"every job has ended, but {held} keys are held")
    return figures

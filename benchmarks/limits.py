"""What limits cost where they hold nothing back, and how fast jobs pass one that is reached."""

from __future__ import annotations

import itertools
from functools import partial

from benchmarks import bench, drains, records
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


AT_ONCE = 8
"""The limit of ``bench.eight_at_once``."""
SHORT, LONG = 0.001, 0.05


def drain(b: Bench) -> Result:
    """Eight at once by a limit on sixteen slots, beside eight slots without a limit."""
    sizes = {SHORT: 500 if b.quick else 10_000, LONG: 40 if b.quick else 400}
    figures: dict[str, Figures] = {}
    checks = []
    for seconds, must, aim in ((SHORT, 0.1, 0.3), (LONG, 0.8, 0.95)):
        passing = partial(_pass, b, sizes[seconds], seconds)
        limited = quietest(b, partial(passing, is_limited=True))
        free = quietest(b, partial(passing, is_limited=False))
        name = f"{1000 * seconds:g} ms"
        figures |= {f"jobdesk {name}": limited, f"jobdesk {name} unlimited": free}
        what = f"jobs of {name} under a limit, x rate of as many slots"
        checks.append(Check(what, paired_ratio([limited], [free]), must, aim))
    return Result(figures, checks)


def _pass(b: Bench, size: int, seconds: float, *, is_limited: bool) -> Figures:
    import jobs
    from benchmarks.limited.handlers import EightAtOnce
    from benchmarks.specimens.handlers import Span

    payload = EightAtOnce(seconds=seconds) if is_limited else Span(seconds=seconds)

    def enqueue(count: int) -> None:
        jobs.enqueue_many(itertools.repeat(payload, count))

    b.reset()
    drains.fill(b, size, enqueue=enqueue)
    processes, out = b.stage(WITH_LIMITS if is_limited else bench.NO_VARIABLES)
    b.wait_quiet()
    with processes:
        slots = AT_ONCE if is_limited else AT_ONCE // 2
        processes.start(bench.dispatcher(), bench.worker(2, slots))
        figures = drains.watch(b, processes, out, size, WINDOW, records.SPAN)
    most = most_at_once(out.times(records.SPAN))
    if most > AT_ONCE:
        raise RuntimeError(f"{most} jobs ran at once where only {AT_ONCE} may")
    return {**figures, "most_at_once": most}


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """Return how many of the spans, each from when until when, overlap at most."""
    moves = [(began, 1) for began, _ in spans] + [(ended, -1) for _, ended in spans]
    return max(itertools.accumulate(step for _, step in sorted(moves)))

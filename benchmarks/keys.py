"""Enqueuing with a unique key beside enqueuing without one.

Nothing else runs, as for the other measurements of enqueuing, and nothing says that jobs may be
born queued: all are born pending. Rounds alternate. ``taken`` asks for keys that unfinished jobs
hold, so that every call answers with such a job; ``ever`` keeps its keys for ever. ``contended`` is
four threads that ask for the same keys at the same time, beside four that ask for none.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.enqueues import Timed, closed
from benchmarks.result import Check, Result

THREADS = 4
_numbers = itertools.count()


def contended(b: Bench) -> Result:
    """One by one, in bulk, and from several threads at once."""
    b.reset()
    size, bulk_size = (20, 200) if b.quick else (200, 5000)
    timed = Timed(b)
    for _ in range(2 if b.quick else 11):
        timed.measure("jobdesk", closed, _plain, size)
        timed.measure("jobdesk unique", closed, _new_keys, size)
        timed.measure("jobdesk taken", closed, _taken_keys, size)
        timed.measure("jobdesk ever", closed, _kept_keys, size)
        timed.measure("jobdesk threads", closed, _threads(_plain), size)
        timed.measure("jobdesk contended", closed, _contend(b), size)
    for _ in range(2 if b.quick else 4):
        timed.measure("jobdesk bulk", closed, _plain_bulk, bulk_size)
        timed.measure("jobdesk bulk unique", closed, _unique_bulk, bulk_size)
    checks = [
        Check(f"{what}, x plain", timed.ratio(f"jobdesk {who}", f"jobdesk{beside}"), must, aim)
        for what, who, beside, must, aim in (
            ("new keys", "unique", "", 0.4, 0.7),
            ("taken keys", "taken", "", 0.4, 0.7),
            ("keys for ever", "ever", "", 0.3, 0.6),
            ("contended keys", "contended", " threads", 0.3, 0.6),
            ("new keys in bulk", "bulk unique", " bulk", 0.05, 0.3),
        )
    ]
    return Result(timed.all(), checks)


def _plain(count: int) -> int:
    import jobs
    from benchmarks.specimens.handlers import Noop

    for _ in range(count):
        jobs.enqueue(Noop())
    return 0


def _new_keys(count: int) -> int:
    import jobs
    from benchmarks.specimens.handlers import Noop

    for _ in range(count):
        jobs.enqueue(Noop(), unique=jobs.Unique(f"new-{next(_numbers)}"))
    return 0


def _taken_keys(count: int) -> int:
    import jobs
    from benchmarks.specimens.handlers import Noop

    # The same keys in every round: all but those of the first, a warm-up, are taken.
    for n in range(count):
        jobs.enqueue(Noop(), unique=jobs.Unique(f"taken-{n}"))
    return 0


def _kept_keys(count: int) -> int:
    import jobs
    from benchmarks.specimens.handlers import Noop

    for _ in range(count):
        jobs.enqueue(Noop(), unique=jobs.Unique(f"ever-{next(_numbers)}", for_="ever"))
    return 0


def _plain_bulk(count: int) -> int:
    import jobs
    from benchmarks.specimens.handlers import Noop

    jobs.enqueue_many(Noop() for _ in range(count))
    return 0


def _unique_bulk(count: int) -> int:
    import jobs
    from benchmarks.specimens.handlers import Noop

    jobs.enqueue_many(
        jobs.Draft(Noop(), unique=jobs.Unique(f"bulk-{next(_numbers)}")) for _ in range(count)
    )
    return 0


def _threads(work: Callable[[int], int]) -> Callable[[int], int]:
    """The work, done by several threads that share it."""

    def shared(count: int) -> int:
        _run_threads(lambda: work(count // THREADS))
        return 0

    return shared


def _contend(b: Bench) -> Callable[[int], int]:
    """Every thread asks for the same keys; each key must end up with one job."""
    import jobs
    from benchmarks.specimens.handlers import Noop

    def contend(count: int) -> int:
        name, keys = f"contended-{next(_numbers)}", count // THREADS

        def ask() -> None:
            for n in range(keys):
                jobs.enqueue(Noop(), unique=jobs.Unique(f"{name}-{n}"))

        _run_threads(ask)
        made = b.sql("SELECT count(*) FROM jobs_job WHERE unique_key LIKE %s", (f"{name}-%",))
        if made != keys:
            raise RuntimeError(f"{keys} keys were asked for, but {made} jobs have one of them")
        return 0

    return contend


def _run_threads(work: Callable[[], object]) -> None:
    from django.db import connections

    failures: list[BaseException] = []

    def life() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=life) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(f"a thread failed: {failures[0]!r}")

"""Enqueuing: what the caller of ``enqueue`` waits for.

A due job is born queued when a dispatcher keeps the queue open and the list in Redis is short.
Measuring that with a dispatcher and workers on the same two cores would measure those. So nothing
else runs; the queue is declared open as a dispatcher would; and jobs are enqueued in rounds of
150, before each of which the list is emptied, because a list of more than 200 ids sends new jobs
the other way: born pending, with a nudge for the dispatcher. That way is measured too.

Single jobs are measured in stretches of many rounds, as a producer would enqueue them, ours and
those of plain rq by turns. Where rounds alternate one by one, rq is up to a third faster than it is
by itself, and the ratio lower (0.62 to 0.75 on the same machine); why has not been found out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks import bench
from benchmarks.bench import Bench
from benchmarks.result import Check, Figures, Result, paired_ratio

ROUND = 150
STRETCH = 15
"""Rounds in a row, about as many jobs as the rivals were given."""
STRETCHES = 4
CLOSED_FOR = 0.3
"""Longer than the engine believes that a queue is open."""


def single(b: Bench) -> Result:
    """Each job in a statement of its own, committed and pushed."""
    return _one_by_one(b, _enqueue, must=0.8, aim=1.0)


def single_atomic(b: Bench) -> Result:
    """Each job in an ``atomic()`` of its own."""
    from django.db import transaction

    def enqueue() -> str:
        with transaction.atomic():
            return _enqueue()

    return _one_by_one(b, enqueue, must=0.5, aim=0.7)


def atomic_1000(b: Bench) -> Result:
    """A thousand jobs in one ``atomic()``, which ends with the commit and the push."""
    from django.db import transaction

    size = 100 if b.quick else 1000

    def thousand(count: int) -> int:
        with transaction.atomic():
            return sum(_enqueue() == "queued" for _ in range(count))

    b.reset()
    timed = Timed(b)
    for _ in range(2 if b.quick else 6):
        timed.measure("jobdesk", _open, thousand, size)
        timed.measure("jobdesk_pending", closed, thousand, size)
        timed.measure("rq_simple", nothing, _rq_enqueues(b), size)
    ours = timed.figures("jobdesk")
    check = Check("in one atomic(), per second", ours["rate"], must=8000, aim=15_000)
    return Result(timed.all(), [check], timed.ratio())


def bulk(b: Bench) -> Result:
    """Ten thousand jobs in one call; making their payloads is part of it."""
    import jobs
    from benchmarks.specimens.handlers import Noop

    size = 1000 if b.quick else 10_000

    def ours(count: int) -> int:
        return len(jobs.enqueue_many(Noop() for _ in range(count)))

    timed = Timed(b)
    for _ in range(2 if b.quick else 4):
        b.reset()
        timed.measure("jobdesk", nothing, ours, size)
        timed.measure("rq_simple", nothing, _rq_bulk(b), size)
    ratio = timed.ratio()
    return Result(timed.all(), [Check("x rq enqueue_many", ratio, must=2.5, aim=4)], ratio)


def _one_by_one(b: Bench, enqueue: Callable[[], str], must: float, aim: float) -> Result:
    def enqueues(count: int) -> int:
        return sum(enqueue() == "queued" for _ in range(count))

    b.reset()
    timed = Timed(b)
    for _ in range(1 if b.quick else STRETCHES):
        for who, before, work in (
            ("jobdesk", _open, enqueues),
            ("rq_simple", _open, _rq_enqueues(b)),
            ("jobdesk_pending", closed, enqueues),
        ):
            for _ in range(3 if b.quick else STRETCH):
                timed.measure(who, before, work, ROUND)
    ratio = timed.ratio()
    return Result(timed.all(), [Check("x rq enqueue", ratio, must, aim)], ratio)


def _enqueue() -> str:
    import jobs
    from benchmarks.specimens.handlers import Noop

    return str(jobs.enqueue(Noop()).state)


def _rq_enqueues(b: Bench) -> Callable[[int], int]:
    from rq import Queue

    queue = Queue(bench.QUEUE, connection=b.plain_redis)

    def enqueues(count: int) -> int:
        for _ in range(count):
            queue.enqueue("benchmarks.plain.noop")
        return count

    return enqueues


def _rq_bulk(b: Bench) -> Callable[[int], int]:
    from rq import Queue

    queue = Queue(bench.QUEUE, connection=b.plain_redis)

    def bulk(count: int) -> int:
        # Faster for rq than everything in one call.
        for _ in range(count // 1000):
            queue.enqueue_many([queue.prepare_data("benchmarks.plain.noop") for _ in range(1000)])
        return count

    return bulk


# ---- what holds before a round


def _open(b: Bench) -> None:
    """The list is empty and due jobs may be born queued."""
    from jobs.engine import rq

    b.redis.delete(rq.queue_key(bench.QUEUE))
    was_open = rq.is_open(bench.QUEUE)
    rq.set_open(bench.QUEUE, 3600.0)
    if not was_open:
        time.sleep(CLOSED_FOR)


def closed(b: Bench) -> None:
    """No dispatcher says that jobs may be born queued."""
    from jobs.engine import rq

    if rq.is_open(bench.QUEUE):
        b.redis.delete(rq._open_key(bench.QUEUE))
        time.sleep(CLOSED_FOR)


def nothing(b: Bench) -> None:
    """Anything may hold."""


class Timed:
    """Rounds of several contestants; the first of each is a warm-up."""

    def __init__(self, b: Bench) -> None:
        self._b = b
        self._rounds: dict[str, list[tuple[float, int, int]]] = {}

    def measure(
        self, who: str, before: Callable[[Bench], None], work: Callable[[int], int], size: int
    ) -> None:
        before(self._b)
        if not self._rounds:
            self._b.wait_quiet()
        began = time.perf_counter()
        told = work(size)
        took = time.perf_counter() - began
        self._rounds.setdefault(who, []).append((took, size, told))

    def figures(self, who: str) -> Figures:
        rounds = self._rounds[who][1:]
        rates = sorted(size / took for took, size, _ in rounds)
        found: dict[str, Any] = {
            "rate": round(rates[len(rates) // 2], 1),
            "jobs": sum(size for _, size, _ in rounds),
            "slowest": round(rates[0], 1),
            "fastest": round(rates[-1], 1),
        }
        if who.startswith("jobdesk"):
            found["born_queued"] = sum(told for *_, told in rounds)
        return found

    def all(self) -> dict[str, Figures]:
        return {who: self.figures(who) for who in self._rounds}

    def ratio(self, who: str = "jobdesk", beside: str = "rq_simple") -> float:
        """The median of the ratios of neighbouring rounds."""
        ours = [{"rate": size / took} for took, size, _ in self._rounds[who][1:]]
        plain = [{"rate": size / took} for took, size, _ in self._rounds[beside][1:]]
        return paired_ratio(ours, plain)

"""A place that is freed: how long until the next job has it.

Jobs of 5 ms wait for one exclusive key, for a kind that runs one at a time, or for a key of a kind
that runs one per key. Each writes down when it began and when it was about to end; what lies
between one's end and the next one's beginning is the handover. Two at once would break the run.

For preemption a job holds the key and looks every millisecond whether it is to stop. The newcomer's
latency runs from the call of ``enqueue`` until its handler starts, and a part of it from the
checkpoint at which the holder stops. The moments at which newcomers
arrive are spread over the engine's ticks.

Where the holder is only queued behind busy slots, what counts runs from the end of the job that
frees a slot until the newcomer's handler starts in it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import Any

from benchmarks import bench, records
from benchmarks.bench import WITH_LIMITS, Bench
from benchmarks.result import Check, Figures, Result, spread

SECONDS = 0.005
TICKS = 0.25
"""What newcomers' moments are spread over."""
SLOTS = 4


def wake(b: Bench) -> Result:
    """Chains of jobs, each of which waits for the end of the one before."""
    import jobs
    from benchmarks.limited.handlers import OneAtATime, OnePerKey
    from benchmarks.specimens.handlers import Span

    size = 10 if b.quick else 200
    drafts = {
        "exclusive key": jobs.Draft(Span(seconds=SECONDS), exclusive="one"),
        "limit of 1": jobs.Draft(OneAtATime(seconds=SECONDS)),
        "limit of 1 per key": jobs.Draft(OnePerKey(seconds=SECONDS), limit_key="one"),
    }
    figures, checks = {}, []
    for name, draft in drafts.items():
        found = figures[name] = _chain(b, [draft] * size)
        for share in ("p50", "p95"):
            what = f"{name}, {share} of a handover"
            checks.append(Check(what, found[f"{share}_ms"], 100, 25, True, unit=" ms"))
    return Result({f"jobdesk {name}": found for name, found in figures.items()}, checks)


def _chain(b: Bench, drafts: Iterable[object]) -> Figures:
    import jobs

    b.reset()
    processes, out = b.stage(WITH_LIMITS)
    with processes:
        processes.start(bench.dispatcher(), bench.worker())
        processes.wait_idle()
        b.wait_quiet()
        with b.watching() as seen:
            ids = jobs.enqueue_many(drafts)  # type: ignore[arg-type]
            out.wait_for(len(ids), patience=120.0)
    spans = sorted(out.times(records.SPAN))
    gaps = [begun - ended for (_, ended), (begun, _) in itertools.pairwise(spans)]
    if min(gaps) < 0:
        raise RuntimeError("two jobs ran at once where only one may")
    return {**spread(gaps), **seen}


def preempt(b: Bench) -> Result:
    """A newcomer takes the key from a job that obeys."""
    import jobs
    from benchmarks.specimens.handlers import Holder, Rival

    b.reset()
    processes, out = b.stage()
    turns = 3 if b.quick else 40
    with processes:
        processes.start(bench.dispatcher(), bench.worker())
        processes.wait_idle()
        b.wait_quiet()
        with b.watching() as seen:
            for turn in range(turns):
                key = f"key-{turn}"
                jobs.enqueue(Holder(), exclusive=key)
                out.wait_for_kind(records.BEGUN, turn + 1)
                time.sleep(TICKS + TICKS * turn / turns)
                jobs.enqueue(Rival(sent=time.monotonic()), exclusive=key, priority=50)
                out.wait_for_kind(records.STAMP, turn + 1)
    stamps = out.times(records.STAMP)
    left = [at for _, at in out.times(records.TOLD)]
    handed = spread([ran - at for at, (_, ran) in zip(left, stamps, strict=True)])
    ours = {
        **spread([ran - sent for sent, ran in stamps]),
        **{f"from_checkpoint_{name}": handed[name] for name in ("p50_ms", "p95_ms")}, **seen,
    }  # fmt: skip
    checks = [
        Check(
            "from the holder's checkpoint to it p95", handed["p95_ms"], 500, 100, True, unit=" ms"
        ),
        Check("start of the newcomer p50", ours["p50_ms"], 1000, 350, True, unit=" ms"),
        Check("start of the newcomer p95", ours["p95_ms"], 1500, 500, True, unit=" ms"),
    ]
    return Result({"jobdesk": ours}, checks)


def preempt_queued(b: Bench) -> Result:
    """A newcomer takes the key from a job that waits for a slot, and has the next slot."""
    import jobs
    from benchmarks.specimens.handlers import Holder, Rival, Span

    b.reset()
    processes, out = b.stage()
    turns = 2 if b.quick else 30
    with processes:
        processes.start(bench.dispatcher(), bench.worker(1, SLOTS))
        processes.wait_idle()
        b.wait_quiet()
        with b.watching() as seen:
            for turn in range(turns):
                busy = [jobs.enqueue(Span(seconds=0.6 + 0.4 * n)) for n in range(SLOTS)]
                _wait_for(jobs.JobState.RUNNING, busy)
                key = f"key-{turn}"
                holder = jobs.enqueue(Holder(), exclusive=key)
                _wait_for(jobs.JobState.QUEUED, [holder])
                time.sleep(TICKS * turn / turns)
                jobs.enqueue(Rival(sent=time.monotonic()), exclusive=key, priority=50)
                out.wait_for_kind(records.STAMP, turn + 1)
                out.wait_for_kind(records.SPAN, (turn + 1) * SLOTS)
                jobs.cancel(holder.id, by="benchmark")
    freed = sorted(ended for _, ended in out.times(records.SPAN))[::SLOTS]
    begun = sorted(ran for _, ran in out.times(records.STAMP))
    ours = {**spread([b - a for a, b in zip(freed, begun, strict=True)]), **seen}
    checks = [
        Check("start in a freed slot p50", ours["p50_ms"], 1000, 100, True, unit=" ms"),
        Check("start in a freed slot p95", ours["p95_ms"], 1500, 250, True, unit=" ms"),
    ]
    return Result({"jobdesk": ours}, checks)


def _wait_for(state: str, made: Iterable[Any]) -> None:
    import jobs

    ids = [one.id for one in made]
    while jobs.Job.objects.filter(pk__in=ids, state=state).count() < len(ids):
        time.sleep(0.005)

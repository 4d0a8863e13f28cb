"""Jobs that wait for something else: 500 of 100 ms each, in 50 slots. Ideal is 1.00 s."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from benchmarks import bench, records
from benchmarks.bench import Bench
from benchmarks.result import Check, Figures, Result

SECONDS = 0.1
JOBS, SLOTS = 500, 50


def io_sync(b: Bench) -> Result:
    """Handlers that block: two executors with 25 threads each."""
    from benchmarks.specimens.handlers import Sleep

    ours = _measure(b, [Sleep(seconds=SECONDS)], bench.worker(2, SLOTS // 2))
    return _result(b, ours, must=1.10, aim=1.05)


def io_async(b: Bench) -> Result:
    """Coroutines: one executor with one event loop."""
    from benchmarks.specimens.handlers import AsyncSleep

    ours = _measure(b, [AsyncSleep(seconds=SECONDS)], bench.worker(1, SLOTS))
    return _result(b, ours, must=1.15, aim=1.05)


def _measure(b: Bench, payload: Sequence[object], worker: list[str]) -> Figures:
    import jobs

    b.reset()
    processes, out = b.stage()
    rounds, walls, since_call = (1 if b.quick else 3), [], []
    with processes, b.watching() as seen:
        processes.start(bench.dispatcher(), worker)
        processes.wait_idle()
        b.wait_quiet()
        for turn in range(rounds):
            called = time.monotonic()
            jobs.enqueue_many([*payload] * JOBS)  # type: ignore[list-item]
            out.wait_for(JOBS * (turn + 1))
            ended = [ran for _, ran in out.times(records.SLEEP)][JOBS * turn :]
            walls.append(ended[-1] - ended[0] + SECONDS)
            since_call.append(ended[-1] - called)
    return {
        "rate": round(JOBS / statistics.median(walls), 1),
        "wall_s": round(statistics.median(walls), 3),
        "since_call_s": round(statistics.median(since_call), 3),
        "walls_s": [round(wall, 3) for wall in walls],
        **seen,
    }


def _result(b: Bench, ours: Figures, must: float, aim: float) -> Result:
    plain = _measure_rq(b)
    check = Check("first start to last end", ours["wall_s"], must, aim, True, unit=" s")
    ratio = round(ours["rate"] / plain["rate"], 2)
    return Result({"jobdesk": ours, "rq_simple": plain}, [check], ratio)


def _measure_rq(b: Bench, size: int = 40) -> Figures:
    """Two SimpleWorkers have two slots: they are given fewer jobs, which is enough for a rate."""
    from rq import Queue

    b.reset()
    queue = Queue(bench.QUEUE, connection=b.plain_redis)
    processes, out = b.stage()
    with processes:
        processes.start(*[bench.rq_worker(b)] * 2)
        processes.wait_idle()
        b.wait_quiet()
        for _ in range(size):
            queue.enqueue("benchmarks.plain.sleep", SECONDS)
        out.wait_for(size)
    ended = [ran for _, ran in out.times(records.SLEEP)]
    wall = ended[-1] - ended[0] + SECONDS
    return {"rate": round(size / wall, 1), "jobs": size, "wall_s": round(wall, 3)}

"""Memory of idle workers with Django loaded: pages that processes share count once (PSS)."""

from __future__ import annotations

from benchmarks import bench
from benchmarks.bench import Bench
from benchmarks.result import Check, Figures, Result


def memory(b: Bench) -> Result:
    """A worker with two executors beside two ``rqworker`` commands of django-rq."""
    ours = _measure(b, [bench.worker(2)])
    theirs = _measure(b, [bench.manage("rqworker", bench.QUEUE, "--verbosity", "0")] * 2)
    ratio = round(ours["pss_mb"] / theirs["pss_mb"], 2)
    check = Check("x two rqworkers of django-rq", ratio, 1, 0.7, lower_is_better=True)
    return Result({"jobdesk": ours, "django_rq": theirs}, [check], ratio)


def _measure(b: Bench, commands: list[list[str]]) -> Figures:
    b.reset()
    processes, _ = b.stage()
    with processes:
        processes.start(*commands)
        processes.wait_idle()
        if not processes.alive():
            raise RuntimeError(f"a worker ended by itself\n{b.last_words()}")
        megabytes, count = processes.pss_mb()
    return {"pss_mb": round(megabytes, 1), "processes": count}

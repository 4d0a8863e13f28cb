"""Every workload by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks import drains
from benchmarks.bench import Bench
from benchmarks.result import Result


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    about: str
    run: Callable[[Bench], Result]


WORKLOADS = [
    Workload("drain_10k", "10 000 jobs that do nothing", partial(drains.drain, size=10_000)),
    Workload("drain_100k", "100 000 jobs that do nothing", partial(drains.drain, size=100_000)),
]
BY_NAME = {workload.name: workload for workload in WORKLOADS}

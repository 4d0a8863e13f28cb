"""Faults in an order that a seed decides, on a fleet that is kept at full strength meanwhile."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import redis

from tests.integration import faults
from tests.integration.fleet import Fleet, Program


@dataclass(frozen=True)
class Storm:
    """What the fleet is made of, and how hard it is struck."""

    workers: int = 3
    concurrency: int = 4
    dispatchers: int = 2
    pause: tuple[float, float] = (0.6, 1.6)
    """Seconds between two faults."""
    read_only: float = 1.0
    locked: float = 1.5
    used_up: float = 1.5
    lock_timeout: str = "300ms"
    settings: dict[str, Any] = field(default_factory=lambda: {"LEASE": 3.0, "HEARTBEAT": 1.0})

    @property
    def frozen(self) -> float:
        return float(self.settings["LEASE"]) + 2


class Injector:
    """Each ``step`` mends what is down, and, when its time has come, breaks something."""

    def __init__(self, fleet: Fleet, seed: int, storm: Storm | None = None) -> None:
        self._fleet, self._random, self._storm = fleet, random.Random(seed), storm or Storm()
        self.counts: Counter[str] = Counter()
        self.struck: set[int] = set()
        """Processes that were killed or frozen: what they knew may be gone."""
        self._workers: list[Program] = []
        self._dispatchers: list[Program] = []
        self._frozen: list[tuple[float, Program]] = []
        self._redis_back_at = 0.0
        self._next_at = 0.0
        self._lasting: tuple[float, ExitStack] | None = None
        self._faults: dict[str, Callable[[], None]] = {
            "worker killed": self._kill_worker,
            "executor killed": self._kill_executor,
            "dispatcher killed": self._kill_dispatcher,
            "worker frozen": self._freeze_worker,
            "redis flushed": self._flush,
            "redis killed": self._kill_redis,
            "connections cut": self._cut_connections,
            "postgres crashed": self._crash_postgres,
            "read-only": lambda: self._begin(faults.read_only(self._fleet), self._storm.read_only),
            "table locked": lambda: self._begin(faults.locked(self._fleet), self._storm.locked),
            "connections used up": lambda: self._begin(
                faults.used_up(self._fleet), self._storm.used_up
            ),
        }
        self._lasts = {"read-only", "table locked", "connections used up"}

    def strengthen(self) -> None:
        """As many processes live as there should be, and Redis is back."""
        self._mend()
        if not self._fleet.valkey.alive and time.monotonic() >= self._redis_back_at:
            self._fleet.valkey.start()
        settings = self._storm.settings
        self._workers = [w for w in self._workers if w.alive]
        while len(self._workers) < self._storm.workers:
            concurrency = f"--concurrency={self._storm.concurrency}"
            self._workers.append(self._fleet.worker(concurrency, jobs=settings, unready=True))
        self._dispatchers = [d for d in self._dispatchers if d.alive]
        while len(self._dispatchers) < self._storm.dispatchers:
            self._dispatchers.append(self._fleet.dispatcher(jobs=settings))
        for at, program in list(self._frozen):
            if time.monotonic() >= at:
                program.proceed()
                self._frozen.remove((at, program))

    def step(self) -> None:
        self.strengthen()
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + self._random.uniform(*self._storm.pause)
        able = [f for f in self._faults if self._lasting is None or f not in self._lasts]
        # Every fault once before any comes again, as far as one has not to wait for another.
        least = min(map(self._count, able))
        fault = self._random.choice([f for f in able if self.counts[f] == least])
        with suppress(psycopg.OperationalError, redis.ConnectionError, ProcessLookupError):
            self._faults[fault]()
            self.counts[fault] += 1

    def _count(self, fault: str) -> int:
        return self.counts[fault]

    def end(self) -> None:
        """Nothing is broken any more, and nothing will be."""
        self._mend(now=True)
        for _, program in self._frozen:
            program.proceed()
        self._frozen.clear()
        self._redis_back_at = 0.0
        self.strengthen()

    def perished(self, *, lapsed: bool) -> set[int]:
        """The processes that were struck, and those that a handler or its timeout has killed.

        ``lapsed``: also those whose lease ran out.
        """
        said = "\n".join(program.logged() for program in self._fleet.programs)
        found = set(map(int, re.findall(r"executor (\d+) (?:was killed|exited)", said)))
        killed = re.findall(r"killing executor (\d+): (.*)", said)
        found |= {int(pid) for pid, why in killed if lapsed or "lease" not in why}
        if lapsed:
            owners = re.findall(r"the lease of executor (\S+) ran out", said)
            silent = "SELECT pid FROM jobs_lease WHERE owner = ANY(%s::uuid[])"
            found |= {pid for (pid,) in self._fleet.query(silent, [owners])}
        return self.struck | found

    # ---- faults

    def _begin(self, fault: AbstractContextManager[None], seconds: float) -> None:
        stack = ExitStack()
        stack.enter_context(fault)
        self._lasting = (time.monotonic() + seconds, stack)

    def _mend(self, *, now: bool = False) -> None:
        if self._lasting is None or (self._lasting[0] > time.monotonic() and not now):
            return
        stack, self._lasting = self._lasting[1], None
        with suppress(psycopg.OperationalError):  # a crash may have mended it before
            stack.close()

    def _strike(self, worker: Program) -> None:
        self.struck |= {worker.pid, *(child.pid for child in worker.family())}

    def _kill_worker(self) -> None:
        worker = self._random.choice(self._workers)
        self._strike(worker)
        worker.kill()

    def _kill_executor(self) -> None:
        worker = self._random.choice(self._workers)
        for pid in self._fleet.executors(worker):
            self.struck.add(pid)
            os.kill(pid, signal.SIGKILL)

    def _kill_dispatcher(self) -> None:
        self._random.choice(self._dispatchers).kill()

    def _freeze_worker(self) -> None:
        worker = self._random.choice(self._workers)
        if worker not in [program for _, program in self._frozen]:
            worker.pause()
            self._strike(worker)
            self._frozen.append((time.monotonic() + self._storm.frozen, worker))

    def _flush(self) -> None:
        self._fleet.redis.flushall()

    def _kill_redis(self) -> None:
        if self._fleet.valkey.alive:
            self._fleet.valkey.kill()
            self._redis_back_at = time.monotonic() + self._random.choice([0.2, 1.5])

    def _cut_connections(self) -> None:
        self._fleet.terminate_backends()

    def _crash_postgres(self) -> None:
        self._fleet.postgres.restart("immediate")

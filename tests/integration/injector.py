"""Faults in an order that a seed decides, on a fleet that is kept at full strength meanwhile."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress

import psycopg
import redis

from tests.integration.fleet import Fleet, Program

WORKERS = 3
DISPATCHERS = 2
SETTINGS = {"LEASE": 3.0, "HEARTBEAT": 1.0}
FROZEN = SETTINGS["LEASE"] + 2


class Injector:
    """Each ``step`` mends what is down, and, when its time has come, breaks something."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._random = fleet, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._workers: list[Program] = []
        self._dispatchers: list[Program] = []
        self._frozen: list[tuple[float, Program]] = []
        self._redis_back_at = 0.0
        self._next_at = 0.0
        self._faults = {
            "worker killed": self._kill_worker,
            "executor killed": self._kill_executor,
            "dispatcher killed": self._kill_dispatcher,
            "worker frozen": self._freeze_worker,
            "redis flushed": self._flush,
            "redis killed": self._kill_redis,
            "connections cut": self._cut_connections,
            "postgres crashed": self._crash_postgres,
        }

    def strengthen(self) -> None:
        """As many processes live as there should be, and Redis is back."""
        if not self._fleet.valkey.alive and time.monotonic() >= self._redis_back_at:
            self._fleet.valkey.start()
        self._workers = [w for w in self._workers if w.alive]
        while len(self._workers) < WORKERS:
            self._workers.append(self._fleet.worker("--concurrency=4", jobs=SETTINGS, unready=True))
        self._dispatchers = [d for d in self._dispatchers if d.alive]
        while len(self._dispatchers) < DISPATCHERS:
            self._dispatchers.append(self._fleet.dispatcher(jobs=SETTINGS))
        for at, program in list(self._frozen):
            if time.monotonic() >= at:
                program.proceed()
                self._frozen.remove((at, program))

    def step(self) -> None:
        self.strengthen()
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + self._random.uniform(0.6, 1.6)
        # Every fault once before any comes again.
        left = [f for f in self._faults if self.counts[f] == min(map(self._count, self._faults))]
        fault = self._random.choice(left)
        self.counts[fault] += 1
        with suppress(psycopg.OperationalError, redis.ConnectionError, ProcessLookupError):
            self._faults[fault]()

    def _count(self, fault: str) -> int:
        return self.counts[fault]

    def end(self) -> None:
        """Nothing is broken any more, and nothing will be."""
        for _, program in self._frozen:
            program.proceed()
        self._frozen.clear()
        self._redis_back_at = 0.0
        self.strengthen()

    # ---- faults

    def _kill_worker(self) -> None:
        self._random.choice(self._workers).kill()

    def _kill_executor(self) -> None:
        worker = self._random.choice(self._workers)
        for pid in self._fleet.executors(worker):
            os.kill(pid, signal.SIGKILL)

    def _kill_dispatcher(self) -> None:
        self._random.choice(self._dispatchers).kill()

    def _freeze_worker(self) -> None:
        worker = self._random.choice(self._workers)
        if worker not in [program for _, program in self._frozen]:
            worker.pause()
            self._frozen.append((time.monotonic() + FROZEN, worker))

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

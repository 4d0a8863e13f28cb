"""The function that a stock ``manage.py rqworker`` calls: one job, claimed and fenced like any.

RQ forks a child per job and calls ``perform`` with the job's id. The child opens a lease of its
own, renews it from a thread while the handler runs, and enforces the timeout by ending itself;
whatever RQ then believes of the job is of no consequence. Should the child be killed, its lease
lapses and the job runs again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import Any
from uuid import UUID

from django.db import Error

from jobs import conf, registry
from jobs.context import Signal
from jobs.engine import claims, leases, runner, settler, sql
from jobs.engine.board import Board, StopReason, now
from jobs.ids import uuid7
from jobs.outcomes import Fault, decide

log = logging.getLogger("jobs.stock")

_LOOK_INTERVAL = 0.2


def perform(job_id: str) -> None:
    """The job has run, if it was to be had; never raises, so that RQ has nothing to retry."""
    registry.autodiscover()
    worker = f"rq.{os.getpid()}"
    try:
        queue = sql.rows("SELECT queue FROM jobs_job WHERE id = %s", [UUID(job_id)])
        if not queue:
            return
        board = Board(1, 1)
        owner = uuid7()
        board.assign(0, owner)
        asked = now()
        leases.open_lease(owner, worker, [], 1)
        board.set_lease(0, asked + conf.settings().LEASE)
        try:
            claimed = claims.claim(queue[0][0], [UUID(job_id)], owner, worker)
            if claimed:
                _run(claimed[0], board, worker)
        finally:
            leases.bury(owner, worker, {}, "its rqworker child ended")
    except Error:
        log.exception("job %s is left to the reconciler", job_id)


def _run(claim: claims.Claim, board: Board, worker: str) -> None:
    seq = board.begin(0, 0, claim.id, claim.token, claim.attempt, claim.timeout)
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(claim, board, seq, worker, done), daemon=True)
    watch.start()

    def peek() -> str:
        reason = board.stop_reason(0, 0, seq)
        return reason.word if reason is not StopReason.NONE else ""

    outcome = runner.run(claim, Signal(peek), _await, worker)
    done.set()
    watch.join()
    runner.refresh_connections()
    if outcome is not None:
        settler.write([outcome], worker)


def _await(coroutine: Any, signal: Signal) -> Any:
    return asyncio.run(runner.obey(coroutine, signal))


def _watch(claim: claims.Claim, board: Board, seq: int, worker: str, done: threading.Event) -> None:
    """Renews the lease and brings stop requests; ends the process where the handler is deaf."""
    settings = conf.settings()
    started, renewed = now(), now()
    while not done.wait(_LOOK_INTERVAL):
        moment = now()
        if moment - started > claim.timeout:
            board.stop(0, 0, seq, StopReason.TIMEOUT)
        if moment - started > claim.timeout + settings.GRACE:
            _end_for_timeout(claim, worker)
        if moment - renewed < settings.HEARTBEAT:
            continue
        try:
            alive = leases.renew([board.owner(0)])
            cancelled = sql.rows(
                "SELECT 1 FROM jobs_job WHERE id = %s AND token = %s "
                "AND cancel_requested_at IS NOT NULL",
                [claim.id, claim.token],
            )
        except Error:
            sql.close()
            alive, cancelled = {board.owner(0)}, []
            if moment - renewed > settings.LEASE:
                alive = set()
        else:
            renewed = moment
        if cancelled:
            board.stop(0, 0, seq, StopReason.CANCELLED)
        if not alive:
            board.stop(0, 0, seq, StopReason.LEASE_LOST)
    sql.close()


def _end_for_timeout(claim: claims.Claim, worker: str) -> None:
    fault = Fault("Timeout", "did not end after its timeout; its process was killed")
    move = decide("timeout", claim.counters, registry.find(claim.kind))
    try:
        ended = claims.Ended(claim.id, claim.token, claim.kind, move, fault)
        claims.settle_endings([ended], worker)
    except Error:
        log.exception("the timeout of job %s is left to the reaper", claim.id)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)

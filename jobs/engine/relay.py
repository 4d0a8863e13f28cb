"""Relaying all the time: in a dispatcher between its rounds, or as a process of its own."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from contextlib import suppress

from django.db import Error

from jobs.engine import feed, outbox, presence, sql
from jobs.engine.seldom import Seldom

log = logging.getLogger("jobs.outbox")

INTERVAL = 0.05
"""Seconds between two looks into the outbox while events come."""
UPKEEP_INTERVAL = 60.0
BUDGET = 0.02
"""Seconds for which a dispatcher relays at a time, and a portion more."""
LONG = 0.1
"""Seconds of a portion after which the next one is smaller: who comes meanwhile waits for both."""
SMALLEST = 25
LIVELY = 5.0
"""Seconds after an event during which the next one is looked for more often."""


class Relay:
    """Moves events in portions and keeps the feed's partitions; any number may run."""

    def __init__(self) -> None:
        self._moved_at = float("-inf")
        self._kept_at = float("-inf")
        self._stopping = False
        self._seldom = Seldom(log)
        self._size = outbox.PORTION

    @property
    def is_lively(self) -> bool:
        """Whether events have come a short while ago."""
        return time.monotonic() - self._moved_at < LIVELY

    def run(self) -> None:
        """Works until asked to stop, through any outage."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        presence.introduce("relay", f"{socket.gethostname()}.{os.getpid()}")
        log.info("the relay moves events into the feed")
        while not self._stopping:
            try:
                if not self.work(1.0):
                    time.sleep(INTERVAL)
            except Error as error:
                self._seldom.failure("away", error, "the relay waits for the database")
                with suppress(Error):
                    sql.close()
                time.sleep(0.2)
        log.info("the relay is gone")

    def work(self, budget: float = BUDGET) -> int:
        """For about this many seconds, or until nothing is left, events have been moved.

        Raises only where the database is away: an event that cannot go must not keep the caller
        this from his other duties.
        """
        moved = 0
        end = time.monotonic() + budget
        try:
            self._keep_up()
            while (portion := self._portion()).moved:
                moved += portion.moved
                if time.monotonic() >= end or self._stopping:
                    break
        except Error as error:
            if sql.is_disconnected(error):
                raise
            self._seldom.failure("relay", error, "events could not be relayed")
        if moved:
            self._moved_at = time.monotonic()
        return moved

    def _portion(self) -> outbox.Relayed:
        """Move some events: as many as take a moment, however large they are."""
        begun = time.monotonic()
        found = outbox.relay_once(self._size)
        took = time.monotonic() - begun
        if took > LONG:
            self._size = max(self._size // 2, SMALLEST)
        elif took < LONG / 2:
            self._size = min(self._size * 2, outbox.PORTION)
        return found

    def _keep_up(self) -> None:
        if time.monotonic() - self._kept_at >= UPKEEP_INTERVAL:
            self._kept_at = time.monotonic()
            feed.keep_up()

    def _on_signal(self, *_: object) -> None:
        self._stopping = True

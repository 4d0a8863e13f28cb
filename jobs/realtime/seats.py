"""Seats: how many sockets one principal has open, counted in Redis over all processes.

While Redis is away, each process counts on its own, and seats that are taken stay taken. The seats
of a process that died are free again after a minute.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from uuid import uuid4

from jobs.engine import rq

SECONDS = 60
"""How long a seat is held without a sign of life."""
RENEWAL = 20.0


class Seat:
    """One of ``most`` seats of this name; its methods ask Redis, and never raise for it."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        # No names of people in Redis.
        self._hashed = hashlib.sha256(name.encode()).hexdigest()[:32]
        self._most, self._holder = most, uuid4().hex
        self._due = 0.0

    def take(self) -> bool:
        """Take the seat; return False where all of them are taken."""
        return self._hold(self._most)

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew the seat."""
        return time.monotonic() >= self._due

    def keep(self) -> None:
        """Renew the seat, whatever the limit is by now."""
        self._hold(0)

    def leave(self) -> None:
        """Free the seat."""
        with suppress(*rq.Unavailable):  # then it is free in a minute
            rq.leave_seat(self._hashed, self._holder)

    def _hold(self, most: int) -> bool:
        self._due = time.monotonic() + RENEWAL
        try:
            return rq.hold_seat(self._hashed, self._holder, most, SECONDS)
        except rq.Unavailable:
            return True

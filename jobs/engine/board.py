"""The board: memory that a worker's processes share, where each executor shows what it runs.

The supervisor reads deadlines from it, and learns from it what a dead executor was doing. It
writes back one word per slot: the reason why the job running there has to stop. A slot goes on
showing its job after the handler has returned, until the outcome is on the job's row.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds since boot, the same in every process, counting on while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class StopReason(IntEnum):
    """Why a running job is asked to stop."""

    NONE = 0
    TIMEOUT = 1
    CANCELLED = 2
    PREEMPTED = 3
    SHUTDOWN = 4
    LEASE_LOST = 5

    @property
    def word(self) -> str:
        return self.name.lower()


# An executor's head: its owner id, until when its lease lasts, its last sign of life, whether it
# has to be replaced. In the keeper's head, the last is the number of deaths that it has reported.
_HEAD = struct.Struct("<16sddQ")
_HEAD_SIZE = 64
# A slot: sequence number of its job, stop word (sequence << 8 | reason), attempt, job, token,
# started, deadline, grace, whether it runs in a process of its own.
_SLOT = struct.Struct("<QQq16s16sddd?")
_SLOT_SIZE = 96
_SEQ = struct.Struct("<Q")
_STOP_AT = 8
_REASON, _FORCED = 0x7F, 0x80
_BODY = struct.Struct("<q16s16sddd?")
_BODY_AT = 16
_DOUBLE = struct.Struct("<d")
_LEASE_AT = 16
_BEAT_AT = 24
_WORN_AT = _REPORTED_AT = 32

IDLE, BUSY, RETURNED = b"\0", b"\1", b"\2"
UNOPENED, LOST = 0.0, -1.0
"""Instead of a lease's end: not opened yet, lost for good."""
NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Running:
    """What a slot shows."""

    slot: int
    seq: int
    job_id: UUID
    token: UUID
    attempt: int
    started: float
    deadline: float
    grace: float
    """Seconds that it has after its deadline."""
    isolated: bool
    """Whether it runs in a process of its own, which its executor ends."""
    stop: StopReason
    forced: bool


class Board:
    """Shared by fork; every slot has one writer, its executor's thread."""

    def __init__(self, executors: int, slots: int) -> None:
        self.executors, self.slots = executors, slots
        self.keeper = executors
        """The keeper's place among the executors; it has a beat and no slots."""
        self._flags_at = 0
        self._heads_at = executors * slots
        self._heads_at += -self._heads_at % 64
        self._slots_at = self._heads_at + (executors + 1) * _HEAD_SIZE
        self._memory = mmap.mmap(-1, self._slots_at + executors * slots * _SLOT_SIZE)

    def assign(self, executor: int, owner: UUID) -> None:
        """The executor's part is blank and belongs to the owner, whose lease is to be opened."""
        start = self._flags_at + executor * self.slots
        self._memory[start : start + self.slots] = IDLE * self.slots
        _HEAD.pack_into(self._memory, self._head(executor), owner.bytes, UNOPENED, now(), 0)

    def owner(self, executor: int) -> UUID:
        """Whose part it is; NOBODY where it is free."""
        return UUID(bytes=bytes(self._memory[self._head(executor) : self._head(executor) + 16]))

    def lease_until(self, executor: int) -> float:
        until: float = _DOUBLE.unpack_from(self._memory, self._head(executor) + _LEASE_AT)[0]
        return until

    def set_lease(self, executor: int, until: float) -> None:
        _DOUBLE.pack_into(self._memory, self._head(executor) + _LEASE_AT, until)

    def beat(self, executor: int) -> None:
        """The executor's (or keeper's) main loop went round once more."""
        _DOUBLE.pack_into(self._memory, self._head(executor) + _BEAT_AT, now())

    def last_beat(self, executor: int) -> float:
        beat: float = _DOUBLE.unpack_from(self._memory, self._head(executor) + _BEAT_AT)[0]
        return beat

    def wear_out(self, executor: int) -> None:
        """The executor cannot go on for long, and asks for a successor."""
        _SEQ.pack_into(self._memory, self._head(executor) + _WORN_AT, 1)

    def is_worn_out(self, executor: int) -> bool:
        """Return whether the executor has asked for a successor."""
        return bool(_SEQ.unpack_from(self._memory, self._head(executor) + _WORN_AT)[0])

    @property
    def reported(self) -> int:
        """How many deaths all keepers together have reported."""
        count: int = _SEQ.unpack_from(self._memory, self._head(self.keeper) + _REPORTED_AT)[0]
        return count

    def note_report(self) -> None:
        """The keeper has reported one more death."""
        at = self._head(self.keeper) + _REPORTED_AT
        _SEQ.pack_into(self._memory, at, self.reported + 1)

    def begin(
        self,
        executor: int,
        slot: int,
        job_id: UUID,
        token: UUID,
        attempt: int,
        timeout: float,
        grace: float = 0.0,
        isolated: bool = False,
    ) -> int:
        """The slot shows the job; answers the sequence number by which it can be stopped."""
        at = self._slot(executor, slot)
        seq: int = _SEQ.unpack_from(self._memory, at)[0] + 1
        started = now()
        _BODY.pack_into(
            self._memory,
            at + _BODY_AT,
            attempt,
            job_id.bytes,
            token.bytes,
            started,
            started + timeout,
            grace,
            isolated,
        )
        _SEQ.pack_into(self._memory, at, seq)
        # Last: a reader that sees the flag sees the rest.
        self._memory[self._flags_at + executor * self.slots + slot] = 1
        return seq

    def hold(self, executor: int, slot: int) -> None:
        """Show the slot's job as one whose handler has returned and whose outcome is unwritten."""
        self._memory[self._flags_at + executor * self.slots + slot] = 2

    def end(self, executor: int, slot: int) -> None:
        """The slot shows nothing."""
        self._memory[self._flags_at + executor * self.slots + slot] = 0

    def busy(self, executor: int) -> int:
        """How many slots of the executor run something."""
        return self._flags(executor).count(BUSY)

    def unwritten(self, executor: int) -> list[UUID]:
        """Return the jobs whose handler has returned and whose outcome is not on their row."""
        at = [self._slot(executor, slot) for slot in _places(self._flags(executor), RETURNED)]
        return [UUID(bytes=_SLOT.unpack_from(self._memory, place)[3]) for place in at]

    def running(self, executor: int) -> Iterator[Running]:
        """What the executor's busy slots show."""
        for slot in _places(self._flags(executor), BUSY):
            at = self._slot(executor, slot)
            seq, stop, *body = _SLOT.unpack_from(self._memory, at)
            attempt, job, token, started, deadline, grace, isolated = body
            if seq != _SEQ.unpack_from(self._memory, at)[0]:
                continue  # it went on to another job while we were reading
            meant = stop >> 8 == seq
            yield Running(
                slot,
                seq,
                UUID(bytes=job),
                UUID(bytes=token),
                attempt,
                started,
                deadline,
                grace,
                isolated,
                StopReason(stop & _REASON) if meant else StopReason.NONE,
                meant and bool(stop & _FORCED),
            )

    def stop(
        self, executor: int, slot: int, seq: int, reason: StopReason, *, force: bool = False
    ) -> None:
        """Tells the job with this sequence number to stop; the first reason stays.

        ``force`` tells the supervisor to end the job's process.
        """
        first = self.stop_reason(executor, slot, seq)
        if first is StopReason.NONE or force:
            word = seq << 8 | (first or reason) | (_FORCED if force else 0)
            _SEQ.pack_into(self._memory, self._slot(executor, slot) + _STOP_AT, word)

    def stop_reason(self, executor: int, slot: int, seq: int) -> StopReason:
        """Why the job with this sequence number has to stop, if it has to."""
        return self.stop_order(executor, slot, seq)[0]

    def stop_order(self, executor: int, slot: int, seq: int) -> tuple[StopReason, bool]:
        """Return why the job with this sequence number has to stop, and whether by force."""
        word: int = _SEQ.unpack_from(self._memory, self._slot(executor, slot) + _STOP_AT)[0]
        if word >> 8 != seq:
            return StopReason.NONE, False
        return StopReason(word & _REASON), bool(word & _FORCED)

    def _flags(self, executor: int) -> bytes:
        start = self._flags_at + executor * self.slots
        return self._memory[start : start + self.slots]

    def _head(self, executor: int) -> int:
        return self._heads_at + executor * _HEAD_SIZE

    def _slot(self, executor: int, slot: int) -> int:
        return self._slots_at + (executor * self.slots + slot) * _SLOT_SIZE


def _places(flags: bytes, flag: bytes) -> Iterator[int]:
    place = flags.find(flag)
    while place >= 0:
        yield place
        place = flags.find(flag, place + 1)

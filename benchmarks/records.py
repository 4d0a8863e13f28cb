"""What every job does: append one record of 24 bytes to a file.

One write to a file opened with O_APPEND, about two microseconds. The driver watches the size of
that file, so no queue's own statistics are believed.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "BENCH_OUT"
"""Names the file."""
RECORD = struct.Struct("<ddII")
NOOP, STAMP, SLEEP, FAIL = 1, 2, 3, 4
SPAN, BEGUN, TOLD, TAKEN = 5, 6, 7, 8
"""From when until when a job ran; that it has begun; that it was told to stop; a mail."""

_file: int | None = None


def append(kind: int, sent: float = 0.0) -> None:
    """The file holds one more record, stamped with this moment."""
    global _file
    if _file is None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        _file = os.open(os.environ[VARIABLE], flags, 0o600)
    os.write(_file, RECORD.pack(sent, time.monotonic(), 0, kind))


@dataclass(frozen=True, slots=True)
class Records:
    """The file, as the driver sees it."""

    path: Path

    def count(self) -> int:
        try:
            return self.path.stat().st_size // RECORD.size
        except FileNotFoundError:
            return 0

    def times(self, kind: int) -> list[tuple[float, float]]:
        """When each job of the kind was sent and when it ran, in the order of running."""
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = content[: len(content) // RECORD.size * RECORD.size]
        found = [(sent, ran) for sent, ran, _, k in RECORD.iter_unpack(whole) if k == kind]
        return sorted(found, key=lambda pair: pair[1])

    def wait_for(self, count: int, patience: float = 30.0) -> None:
        """The file holds so many records."""
        deadline = time.monotonic() + patience
        while (there := self.count()) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {there} of {count} jobs ran within {patience:g} s")
            time.sleep(0.005)

    def wait_for_kind(self, kind: int, count: int, patience: float = 30.0) -> None:
        """The file holds so many records of the kind."""
        deadline = time.monotonic() + patience
        while (there := len(self.times(kind))) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {there} of {count} records within {patience:g} s")
            time.sleep(0.005)

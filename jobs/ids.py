"""UUIDs that sort by the time of their making."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """A UUIDv7, greater than every one made before it in this process."""
    global _last
    # 60 ordered bits: milliseconds, then 12 bits of sub-millisecond that also count up.
    stamp = time.time_ns() * 4096 // 1_000_000
    with _lock:
        _last = stamp = max(stamp, _last + 1)
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62
    return UUID(int=value | int.from_bytes(os.urandom(8), "big") >> 2)

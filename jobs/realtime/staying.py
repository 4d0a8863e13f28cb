"""Whoever listens may do so only as long as he is known, and sees what he saw at the beginning."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable

from jobs.realtime.questions import View
from jobs.realtime.refusals import NobodyKnown

CHECK = 60.0
"""Seconds after which it is asked again whether somebody may listen."""


class Stay:
    """Of one who listens; ``again`` says what he would see if he came now, None for nothing."""

    def __init__(self, view: View, again: Callable[[], Awaitable[View | None]]) -> None:
        self._view, self._again = view, again
        self._check_at = time.monotonic() + CHECK * random.uniform(0.5, 1.0)

    async def check(self) -> None:
        """From time to time it is asked again; raises NobodyKnown where he has to leave."""
        if time.monotonic() <= self._check_at:
            return
        self._check_at = time.monotonic() + CHECK
        if await self._again() != self._view:
            raise NobodyKnown

"""Whoever listens may do so only as long as he is known, and sees what he saw at the beginning."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from django.http import HttpRequest

from jobs.realtime.access import find_principal
from jobs.realtime.answers import NobodyKnown
from jobs.realtime.questions import View, question

CHECK = 60.0
"""Seconds after which it is asked again whether somebody may listen."""


class Stay:
    """Of one who listens; ``again`` makes his request anew, as nobody has looked at it."""

    def __init__(self, view: View, again: Callable[[], HttpRequest]) -> None:
        self._view, self._again = view, again
        self._check_at = time.monotonic() + CHECK * random.uniform(0.5, 1.0)

    async def check(self) -> None:
        """From time to time it is asked again; raises NobodyKnown where he has to leave."""
        if time.monotonic() <= self._check_at:
            return
        self._check_at = time.monotonic() + CHECK
        request = self._again()
        who = await find_principal(request)
        if who is None or question(request.GET, who).view != self._view:
            raise NobodyKnown

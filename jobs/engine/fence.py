"""The fence: a transaction of a handler commits only while its attempt holds the job."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from asgiref.sync import sync_to_async
from django.db import transaction

from jobs.engine import sql
from jobs.engine.claims import Claim
from jobs.errors import StaleClaim

# Whoever would give the job to another attempt needs this lock: the reaper passes by, everybody
# else waits for the end of the transaction.
_HOLD = """
SELECT 1 FROM jobs_job WHERE id = %s AND token = %s AND state = 'running' FOR NO KEY UPDATE
"""


class Fence:
    """The hold of one attempt on its job."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def hold(self) -> None:
        """Lock the job's row until the transaction ends; raise StaleClaim where the job is lost."""
        if sql.in_event_loop():
            raise transaction.TransactionManagementError(
                "fence: in a coroutine, say: await ctx.fence_async()"
            )
        if not sql.in_transaction():
            raise transaction.TransactionManagementError(
                f"fence: needs a transaction on the database of the jobs; call it inside "
                f"transaction.atomic(using={sql.alias()!r})"
            )
        if not sql.bound_rows(_HOLD, [self._claim.id, self._claim.token]):
            self.refuse()

    async def hold_async(self) -> None:
        """Do the same from a coroutine, in the thread that has its transaction."""
        await asyncio.shield(sync_to_async(self.hold, thread_sensitive=True)())

    def refuse(self) -> NoReturn:
        """Raise StaleClaim; the transaction is rolled back also where somebody swallows it."""
        if sql.connection().in_atomic_block:
            transaction.set_rollback(True, using=sql.alias())
        raise StaleClaim(self._claim.id, self._claim.attempt)

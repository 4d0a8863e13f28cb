"""A fence that looks and does not lock.

Installed only by a test that proves that the lock is needed.
"""

from django.apps import AppConfig


class Unlocked(AppConfig):
    """``ctx.fence`` reads the job's row, and anyone may take the job a moment later."""

    name = "tests.integration.unlocked"
    label = "unlocked"

    def ready(self) -> None:
        from jobs.engine import fence

        lock = "FOR NO KEY UPDATE"
        if lock not in fence._HOLD:
            raise RuntimeError("the fence takes no lock that could be removed")
        fence._HOLD = fence._HOLD.replace(lock, "")

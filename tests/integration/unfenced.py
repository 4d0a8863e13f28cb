"""A worker without its fence: what it claimed once it may finish for ever.

Installed only by a test that proves that the checks would notice.
"""

from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

GUARD, NO_GUARD = "CASE WHEN j.token = d.token THEN j.owner IS NOT NULL END", "j.owner IS NOT NULL"


class Unfenced(AppConfig):
    """Successes are accepted by state alone, whoever holds the job."""

    name = "tests.integration.unfenced"
    label = "unfenced"

    def ready(self) -> None:
        from jobs.engine import claims

        claims._SUCCEED = claims._SUCCEED.replace("jobs_succeed", "jobs_succeed_unfenced")
        connection_created.connect(make_function)


def make_function(connection: Any, **_: object) -> None:
    """The database has the function that settles successes a second time, without its guard."""
    with connection.cursor() as cursor:
        # A worker that is frozen while it holds the lock must not hold up the next one.
        cursor.execute("SELECT to_regproc('jobs_succeed_unfenced') IS NOT NULL")
        if cursor.fetchone() == (True,):
            return
        cursor.execute(
            "SELECT pg_advisory_lock(770077), "
            "pg_get_functiondef(to_regprocedure('jobs_succeed(uuid[], uuid[], jsonb, text)'))"
        )
        _, fenced = cursor.fetchone()
        if GUARD not in fenced:
            raise RuntimeError("the function holds no guard that could be removed")
        unfenced = fenced.replace(GUARD, NO_GUARD).replace(
            "jobs_succeed(", "jobs_succeed_unfenced("
        )
        cursor.execute(unfenced)
        cursor.execute("SELECT pg_advisory_unlock(770077)")

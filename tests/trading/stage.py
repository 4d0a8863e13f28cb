"""Steps in a process of a fleet: reads ``[step, arguments]`` line by line, and writes answers.

Each line is JSON. It ends with its standard input.
"""

from __future__ import annotations

import json
import sys
import uuid
from datetime import timedelta
from typing import Any

import django


def begin_import(name: str, secret: str) -> list[Any]:
    """Link an account and start its import; return the user and the job."""
    from trading import services
    from trading.models import BrokerConnection

    link = BrokerConnection.objects.create(
        id=uuid.uuid4(), user_id=_user(), broker="coinbase", key_name=name, secret=secret
    )
    return [link.user_id, str(services.start_import(link, by="tests"))]


def import_again(user: int) -> str:
    """Start the import of a linked account; return the job."""
    from trading import links, services

    return str(services.start_import(links.choose(user), by="tests"))


def begin_digest(fills: list[dict[str, Any]], labels: list[str]) -> list[Any]:
    """Store labelled trades and enqueue the digest of their last whole week.

    Return the user, the job, and the digest that nothing has disturbed.
    """
    from trading import digesting, importing, services
    from trading.clock import now, week_of
    from trading.fills import read_fill
    from trading.models import BiasTag, Trade

    user = _user()
    importing.upsert(user, "coinbase", [read_fill(row) for row in fills])
    for trade, label in zip(Trade.objects.filter(user=user).order_by("ts"), labels, strict=True):
        BiasTag.objects.create(
            user_id=user, trade=trade, label=label, confidence=1, source="ai", rules_version="v1"
        )
    end = week_of(now()).date()
    start = end - timedelta(days=7)
    wanted = digesting.aggregate(user, start, end)
    return [user, str(services.enqueue_digest(user, start, end)), wanted]


def begin_week(user: int) -> list[str]:
    """Enqueue the digest of last week; return its first day and the day after it."""
    from trading import services
    from trading.clock import now, week_of

    end = week_of(now()).date()
    services.enqueue_digest(user, end - timedelta(days=7), end)
    return [(end - timedelta(days=7)).isoformat(), end.isoformat()]


def erase(user: int) -> str:
    """Erase the user's data; return the job that deletes the snapshots."""
    from django.db import transaction

    import jobs
    from trading import erasing

    with transaction.atomic():
        erasing.erase(user)
    return str(jobs.Job.objects.get(kind="trading.erase_snapshots", tenant=f"user:{user}").pk)


def retry_scoring(user: int) -> str:
    """Retry the user's scoring that has failed; return the job."""
    import jobs
    from trading.models import ScoreRun

    job = ScoreRun.objects.get(user=user).pk
    jobs.retry(job, by="tests")
    return str(job)


def _user() -> int:
    from django.contrib.auth.models import User

    return int(User.objects.create_user(f"trader-{uuid.uuid4().hex[:12]}").pk)


STEPS = {
    "import": begin_import, "again": import_again, "digest": begin_digest, "week": begin_week,
    "retry": retry_scoring, "erase": erase,
}  # fmt: skip

if __name__ == "__main__":
    django.setup()
    for line in sys.stdin:
        step, given = json.loads(line)
        print(json.dumps(STEPS[step](*given)), flush=True)  # type: ignore[operator]  # noqa: T201

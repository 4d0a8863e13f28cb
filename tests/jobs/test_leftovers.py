"""Bulk operations and causes go when their time is over, a portion at a time."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import jobs
from jobs.engine import retention
from jobs.models import Bulk, BulkItem, Cause, CauseSeen
from jobs.operate import bulk
from tests.jobs.factories import a_claim, ended, settle, sql
from tests.operate.test_bulk import run

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def sweep(**options: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for portion in retention.sweep(**options):
        total.update(portion.rows)
    return +total


def dead() -> Any:
    claim = a_claim()
    settle(ended(claim, "unrecoverable"))
    return claim.id


def aged(made: Bulk, days: int) -> Bulk:
    sql(
        "UPDATE jobs_bulk SET created_at = created_at - %s, finished_at = finished_at - %s "
        "WHERE id = %s",
        [days * DAY, days * DAY, made.id],
    )
    return made


def an_operation(count: int, days: int) -> Bulk:
    return aged(
        run(bulk.start("retry", ids=[dead() for _ in range(count)], by="ann", reason="x")), days
    )


@pytest.mark.parametrize("plan", ["chosen", "nested"])
def test_old_operations_go_with_their_items_and_the_others_stay(plan: str) -> None:
    old, new = an_operation(5, 91), an_operation(2, 89)
    waiting = aged(bulk.start("retry", ids=[dead()], by="ann", reason="x"), 200)
    assert sweep(dry_run=True)["bulk items"] == 5
    if plan == "nested":  # the subquery of an IN would run once for every row
        for way in ("hashagg", "hashjoin", "mergejoin", "sort", "material"):
            sql(f"SET LOCAL enable_{way} = off")
    portions = [dict(p.rows) for p in retention.sweep(chunk=2) if "bulk items" in p.rows]
    assert portions == [{"bulk items": n} for n in (2, 2, 1, 0, 0)]
    assert set(Bulk.objects.values_list("id", flat=True)) == {new.id, waiting.id}
    assert BulkItem.objects.count() == 3 and not BulkItem.objects.filter(bulk_id=old.id).exists()


def test_a_cause_goes_when_nothing_died_of_it_for_long_and_none_is_open() -> None:
    dead()
    sql("UPDATE jobs_causeseen SET last_at = last_at - %s", [91 * DAY])
    assert not sweep()["causes"] and Cause.objects.count() == 1
    letter = jobs.types.DeadLetter.objects.get()
    from jobs.operate.deadletters import discard_letter

    discard_letter(letter.id, by="ann", reason="x")
    assert sweep(dry_run=True)["causes seen"] == 1 and Cause.objects.count() == 1
    gone = sweep()
    assert (gone["causes seen"], gone["causes"]) == (1, 1)
    assert not Cause.objects.exists() and not CauseSeen.objects.exists()


def test_a_cause_that_still_kills_elsewhere_stays() -> None:
    for queue in ("default", "mail"):
        settle(ended(a_claim(queue=queue), "unrecoverable"))
    for letter in jobs.types.DeadLetter.objects.all():
        bulk_ids = [letter.id]
        run(bulk.start("discard_letter", ids=bulk_ids, by="ann", reason="x"))
    sql("UPDATE jobs_causeseen SET last_at = last_at - %s WHERE queue = 'mail'", [91 * DAY])
    gone = sweep()
    assert (gone["causes seen"], gone["causes"]) == (1, 0)
    assert Cause.objects.count() == 1 and CauseSeen.objects.get().queue == "default"

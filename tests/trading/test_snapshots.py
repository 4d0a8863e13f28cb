"""Snapshots in a bucket: the same key and bytes again, a wrong secret, and erasing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from config.standins.trading import Coinbase
from jobs import Job, blobs
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.blobs import seaweed
from tests.blobs.conftest import bucket
from trading import erasing, services
from trading.clock import now, week_of
from trading.models import BrokerConnection, Digest

__all__ = ["bucket"]  # a fixture
pytestmark = pytest.mark.django_db(transaction=True)


def stored_in(bucket: seaweed.Server, settings: Any, secret: str = seaweed.SECRET) -> None:
    settings.JOBS = {
        **settings.JOBS,
        "HTTP_ALLOW": ["127.0.0.0/8", "localhost"],
        "BLOBS": {
            "STORE": "s3", "ENDPOINT": bucket.endpoint, "BUCKET": seaweed.BUCKET,
            "REGION": seaweed.REGION, "KEY_ID": seaweed.KEY_ID, "SECRET": secret,
        },
    }  # fmt: skip


@pytest.fixture
def trader(
    venue: Coinbase, link: BrokerConnection, bucket: seaweed.Server, settings: Any
) -> Iterator[BrokerConnection]:
    """A user with labelled trades, whose snapshots go to the bucket."""
    services.start_import(link, by="tests")
    run_jobs()
    stored_in(bucket, settings)
    yield link
    with transaction.atomic():
        erasing.erase(link.user_id)
    run_jobs()


def digest(link: BrokerConnection) -> Any:
    end = week_of(now()).date()
    return services.enqueue_digest(link.user_id, end - timedelta(days=7), end)


def keys(link: BrokerConnection) -> list[str]:
    return [blob.key for blob in blobs.store().list(f"digests/{link.user_id}/")]


def body_of(row: Digest) -> bytes:
    with blobs.store().read(row.storage_key) as pieces:
        return b"".join(pieces)


def test_a_repeated_digest_has_the_same_key_and_bytes(trader: BrokerConnection) -> None:
    digest(trader)
    run_jobs()
    [row] = Digest.objects.all()
    first = body_of(row)
    assert hashlib.sha256(first).hexdigest() == row.sha256
    assert row.storage_key == f"digests/{trader.user_id}/{row.period_start}-{row.period_end}.json"
    digest(trader)
    run_jobs()
    assert body_of(row) == first and keys(trader) == [row.storage_key]
    assert len(emitted("digest.ready")) == 1, "nothing has changed"


def test_a_wrong_secret_is_retried_and_leaves_no_row(
    trader: BrokerConnection, bucket: seaweed.Server, settings: Any
) -> None:
    stored_in(bucket, settings, "another secret")
    job = digest(trader)
    run_jobs()
    row = Job.objects.get(pk=job)
    assert (row.state, row.failures) == ("pending", 1)
    assert not Digest.objects.exists() and emitted("digest.ready") == []
    stored_in(bucket, settings)
    assert keys(trader) == []
    with freeze_clock() as clock:
        clock.tick(60)
        run_jobs()
    assert Job.objects.get(pk=job).state == "succeeded"
    assert keys(trader) == [Digest.objects.get().storage_key]


def test_erasing_empties_the_bucket(trader: BrokerConnection) -> None:
    digest(trader)
    run_jobs()
    assert len(keys(trader)) == 1
    with transaction.atomic():
        erasing.erase(trader.user_id)
    run_jobs()
    assert keys(trader) == [] and not Digest.objects.exists()

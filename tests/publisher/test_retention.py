"""What is kept of old publications: everything that keeps them from appearing again."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

import jobs
from config.standins.publisher import Standin
from jobs import blobs
from jobs.testing import freeze_clock, run_jobs
from publisher import clock, plan_verbs, retention, services, template_verbs, verbs
from publisher.content import Content
from publisher.errors import Refused
from publisher.models import Account, Asset, Publication
from tests.publisher import factories
from tests.publisher.test_assets import store

__all__ = ["store"]  # a fixture
pytestmark = pytest.mark.django_db


def drop_jobs() -> None:
    """Nothing is left of the jobs that have ended."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_deadletter")
    ended = ("succeeded", "failed", "cancelled", "expired")
    jobs.Job.objects.filter(state__in=ended).delete()


def trim(chunk: int = 2) -> int:
    return sum(one["publications trimmed"] for one in retention.trim(False, chunk))


def test_a_row_is_trimmed_after_180_days_and_never_deleted(
    accounts: dict[str, Account], standin: Standin, admin_client: Client
) -> None:
    account = accounts["meta_facebook"]
    with freeze_clock() as time:
        rows = [
            services.enqueue(account, factories.post("meta_facebook", f"post {n}")).row
            for n in range(3)
        ]
        run_jobs(["publisher"])
        waits = services.enqueue(
            account, factories.post("meta_facebook", "later"),
            run_at=clock.now() + timedelta(days=300),
        ).row  # fmt: skip
        time.tick(179 * 86_400)
        assert trim() == 0
        time.tick(2 * 86_400)
        assert list(retention.trim(True, 2)) == [{"publications trimmed": 3}]
        assert (trim(), trim()) == (3, 0)
    for row in rows:
        row.refresh_from_db()
        assert (row.content, row.handle, row.events.count()) == ({}, {}, 0)
        assert row.status == "completed" and row.remote_id and row.url and row.key
    waits.refresh_from_db()
    assert waits.content
    drop_jobs()
    page = admin_client.get(f"/admin/publisher/publication/{rows[0].pk}/change/")
    assert page.status_code == 200 and "too old" in page.content.decode()


def test_a_doubt_is_kept_until_it_is_settled(
    accounts: dict[str, Account], standin: Standin
) -> None:
    row = services.enqueue(accounts["meta_facebook"], factories.post("meta_facebook")).row
    moment = clock.now() - timedelta(days=200)
    Publication.objects.filter(pk=row.pk).update(
        status="failed", reason="in_doubt", ended_at=moment
    )
    assert trim() == 0


def test_there_and_back_publishes_once_after_retention_too(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account, post = accounts["meta_facebook"], factories.post("meta_facebook")
    with freeze_clock() as time:
        ten = clock.now() + timedelta(days=400)
        first = services.schedule(account, post, ten).row
        verbs.move(first.pk, ten + timedelta(hours=1), by="tests")
        second = Publication.objects.exclude(pk=first.pk).get()
        time.tick(200 * 86_400)
        assert trim() == 1  # the cancelled one
        drop_jobs()
        verbs.move(second.pk, ten, by="tests")
        first.refresh_from_db()
        assert (first.status, first.content["caption"]) == ("pending", post.text)
        time.tick(200 * 86_400 + 60)
        run_jobs(["publisher"])
        first.refresh_from_db()
        assert first.status == "completed" and len(standin.posts["page"]) == 1
        # And what has appeared does not appear again, whoever asks for it and whenever.
        time.tick(200 * 86_400)
        assert trim() >= 1
        drop_jobs()
        same = services.enqueue(account, post, idempotency_key=first.key)
        assert (same.is_new, same.row.pk, same.row.status) == (False, first.pk, "completed")
        run_jobs(["publisher"])
    assert len(standin.posts["page"]) == 1


def test_a_failed_post_whose_text_is_gone_cannot_be_replayed(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("POST /page/feed", "400")
    with freeze_clock() as time:
        row = services.enqueue(accounts["meta_facebook"], factories.post("meta_facebook")).row
        run_jobs(["publisher"])
        time.tick(181 * 86_400)
        assert trim() == 1
        with pytest.raises(Refused, match="too old"):
            verbs.replay(row.pk, by="tests", reason="again")
    assert not jobs.Job.objects.filter(kind="publisher.meta_facebook", state="pending").exists()


def sweep_assets(chunk: int = 2) -> int:
    return sum(one["assets deleted"] for one in retention.trim_assets(False, chunk))


def test_an_asset_goes_with_its_bytes_seven_days_after_its_last_use(
    accounts: dict[str, Account], store: blobs.Store, standin: Standin
) -> None:
    account = accounts["meta_facebook"]
    brand = account.brand

    def asset(name: str) -> Asset:
        row = Asset.objects.create(
            brand=brand, tenant=brand.tenant, name=name, size=3, content_type="image/jpeg",
            kind="image", is_ready=True, sha256=hashlib.sha256(b"abc").hexdigest(),
        )  # fmt: skip
        store.write(row.blob, b"abc")
        return row

    def post(row: Asset, **how: Any) -> Publication:
        content = {"caption": row.name, "media": [{"asset": row.pk}]}
        return services.enqueue(account, Content.model_validate(content), **how).row

    with freeze_clock() as time:
        unused, sent, waiting, planned, kept = (
            asset(name) for name in ("unused", "sent", "waiting", "planned", "kept")
        )
        late = asset("late")
        media = {"media": [{"asset": str(planned.pk)}]}
        content = {"overrides": {"meta_facebook": media}}
        plan_verbs.create_with("acme", "Plan", content, [], by="ada")
        media = {"media": [{"asset": str(kept.pk)}]}
        template_verbs.create_with("acme", "News", media, by="ada")
        post(waiting, run_at=clock.now() + timedelta(days=30))
        time.tick(5 * 86_400)
        done = post(sent)
        run_jobs(["publisher"])
        done.refresh_from_db()
        assert done.status == "completed"
        time.tick(3 * 86_400)
        assert list(retention.trim_assets(True, 2)) == [{"assets deleted": 2}]
        assert (sweep_assets(chunk=1), sweep_assets()) == (2, 0)
        left = {row.name for row in Asset.objects.all()}
        assert left == {"sent", "waiting", "planned", "kept"}
        assert store.head(unused.blob) is None and store.head(sent.blob) is not None
        with pytest.raises(Refused, match="no such asset"):
            post(late)
        time.tick(5 * 86_400)
        assert sweep_assets() == 1 and store.head(sent.blob) is None
        assert store.head(waiting.blob) is not None


def test_a_post_whose_asset_was_deleted_is_not_replayed(
    accounts: dict[str, Account], store: blobs.Store, standin: Standin
) -> None:
    account = accounts["meta_facebook"]
    row = Asset.objects.create(
        brand=account.brand, tenant=account.tenant, name="a", size=3, content_type="image/jpeg",
        kind="image", is_ready=True, sha256="0" * 64,
    )  # fmt: skip
    content = {"caption": "x", "media": [{"asset": row.pk}]}
    with freeze_clock() as time:
        post = services.enqueue(account, Content.model_validate(content)).row
        run_jobs(["publisher"])
        post.refresh_from_db()
        assert post.reason == "permanent"  # its bytes are not what they were
        time.tick(8 * 86_400)
        assert sweep_assets() == 1
        with pytest.raises(Refused, match="has been deleted"):
            verbs.replay(post.pk, by="ann", reason="again")
    post.refresh_from_db()
    assert post.status == "failed"

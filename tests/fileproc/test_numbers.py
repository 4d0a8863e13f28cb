"""The numbers of the last day."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from fileproc import embedding, numbers
from fileproc.models import File
from tests.fileproc import documents
from tests.fileproc.conftest import process, upload

pytestmark = pytest.mark.django_db


def test_a_day_without_documents_has_no_p95() -> None:
    assert numbers.of_day() == numbers.Numbers(0, 0, None, 0, 0, 0)


def test_they_tell_how_documents_came_through_for_each_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = upload(*[(f"{n}.txt", f"lamp {n}".encode()) for n in range(20)])
    upload(("broken.pdf", b"%PDF-1.7 broken"), owner="user:2")
    process()
    now = timezone.now()
    for seconds, file in enumerate(files, 1):
        File.objects.filter(pk=file.pk).update(
            confirmed_at=now - timedelta(seconds=seconds), ended_at=now
        )
    day = numbers.of_day(["user:1"])
    assert (day.ready, day.failed, day.retried) == (20, 0, 0)
    assert day.p95 == pytest.approx(19.05)
    assert numbers.of_day(["user:2"]) == numbers.Numbers(0, 1, None, 0, 1, 0)
    assert numbers.of_day().failed == 1
    File.objects.update(ended_at=now - timedelta(days=1, hours=1))
    assert numbers.of_day().ready == 0


def test_a_stage_that_the_first_retry_finished_is_counted(
    model: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def once(texts: list[str]) -> list[bytes]:
        tries.append(texts)
        if len(tries) == 1:
            raise RuntimeError("planned")
        return original(texts)

    original = embedding.embed
    monkeypatch.setattr(embedding, "embed", once)
    upload(("a.md", documents.MARKDOWN))
    process()
    day = numbers.of_day()
    assert (day.ready, day.retried, day.mended) == (1, 1, 1)

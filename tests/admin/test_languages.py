"""What the platform says of a job is told in the reader's language, and kept in English."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.utils import translation

import jobs
from jobs.admin.declared import form_of
from jobs.admin.limits import LimitForm
from jobs.admin.refusals import TEXTS, in_words
from jobs.errors import Changed, Denied, InvalidOption, KeyTaken, NotAllowed, TooSlow, UnknownJob
from jobs.models import Bulk, BulkItem, Job, Slot
from jobs.operate import bulk, pauses, queues, verbs
from jobs.operate.bulkacts import CLOSED, MOVED
from jobs.operate.bulkplans import ACTIONS, obstacle
from jobs.operate.explain import explain
from jobs.operate.explained import explain_to
from jobs.principals import Principal, Scope
from jobs.testing import run_jobs
from tests.jobs.factories import a_job
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db
ITALIAN, PORTUGUESE = {"accept-language": "it"}, {"accept-language": "pt-br"}


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """What the last request has spoken is not what a test begins with."""
    with translation.override("en"):
        yield


def read(client: Client, url: str, headers: dict[str, str] | None = None) -> str:
    """What the page says, whatever its letters' size."""
    return client.get(url, headers=headers).content.decode().lower()


def test_a_page_explains_in_the_language_of_its_reader(admin_client: Client) -> None:
    job = jobs.enqueue(Noop(), delay=600)
    pauses.pause("queue:default", by="ada", reason="the disk is full")
    url = f"/admin/jobs/job/{job.id}/change/"
    assert "not due before" in read(admin_client, url)
    text = read(admin_client, url, ITALIAN)
    assert "non parte prima di" in text and "not due before" not in text
    assert "chiusura finché qualcuno riprende" in text and "the disk is full" in text
    text = read(admin_client, url, PORTUGUESE)
    assert "não começa antes de" in text and "fechamento até alguém retomar" in text


def test_programs_are_told_in_english_whatever_their_language(admin_client: Client) -> None:
    job = jobs.enqueue(Noop(), delay=600)
    [reason] = admin_client.get(f"/api/v1/jobs/{job.id}/explain", headers=ITALIAN).json()[
        "reasons"
    ][:1]
    assert reason["code"] == "not_due" and reason["text"].startswith("not due before")
    with translation.override("it"):
        first = explain(job.id).reasons[0]
        assert first.text.startswith("not due before")
        assert first.told.startswith("non parte prima di")


@pytest.mark.parametrize("language", ["en", "it", "pt-br"])
def test_other_peoples_jobs_are_masked_in_every_language(language: str) -> None:
    holder = a_job("running", exclusive="door", tenant="theirs")
    Slot.objects.get_or_create(key="door", defaults={"job_id": holder})
    mine = a_job(exclusive="door", tenant="mine")
    who = Principal("ann", scope=Scope(tenants=frozenset({"mine"})))
    with translation.override(language):
        [reason] = [r for r in explain_to(mine, by=who).reasons if r.code == "key_held"]
        for text in (reason.text, reason.told):
            assert str(holder) not in text and text.endswith("…") and "door" in text
            # Nothing of the other job, also not where a language says it in another order.
            assert not any(w in text for w in ("running", "in corso", "execu", "UTC"))
        assert reason.ids == ()
        both = Principal("bob", scope=Scope(tenants=frozenset({"mine", "theirs"})))
        [reason] = [r for r in explain_to(mine, by=both).reasons if r.code == "key_held"]
        assert str(holder) in reason.told and reason.ids == (str(holder),)


SOME = UUID(int=7)
REFUSED: list[Any] = [
    NotAllowed("retry", SOME, "running", ["failed", "cancelled"]),
    NotAllowed("replay", SOME, "of kind a.b, which forbids it", []),
    NotAllowed("replay", SOME, "in doubt about an effect; resolve that first", []),
    NotAllowed("replay", SOME, f"succeeded by {SOME}, which is unfinished", []),
    NotAllowed("abort", SOME, "done", []),
    KeyTaken(SOME, "order 7", SOME),
    Denied("retry_job"),
    Changed("job", SOME),
    UnknownJob(SOME),
    TooSlow(3.0),
    MOVED.detail,
    CLOSED.detail,
]


@pytest.mark.parametrize("language", ["it", "pt-br"])
@pytest.mark.parametrize("said", REFUSED, ids=str)
def test_a_refusal_is_told_in_the_readers_language(said: Any, language: str) -> None:
    assert in_words(said) == str(said)
    with translation.override(language):
        told = in_words(said)
    assert told != str(said)
    for word in (" is ", "cannot", " must ", "there ", "which"):
        assert word not in told
    for value in (str(SOME), "order 7", "a.b"):
        assert (value in told) == (value in str(said))


def test_every_reason_for_passing_by_is_one_of_the_texts() -> None:
    reasons = {
        obstacle(action, state, kind, has_letter, is_replayed)
        for action in ACTIONS
        for state in ("running", "failed", "succeeded", "pending")
        for kind in ("jobs.bulk", "test.internal", "test.unreplayable", "a.b")
        for has_letter in (True, False)
        for is_replayed in (True, False)
    } - {""}
    assert len(reasons) > 7
    with translation.override("it"):
        assert [reason for reason in reasons if in_words(reason) == reason] == []


def test_unknown_words_are_left_as_they_are() -> None:
    with translation.override("it"):
        for text in ("", "ZeroDivisionError: division by zero", "100 %(n)s", TEXTS[0] + "\n"):
            assert isinstance(in_words(text), str)
        assert in_words("ZeroDivisionError: 5") == "ZeroDivisionError: 5"


def test_a_bulk_operation_tells_what_it_passed_by_and_why_it_rests(admin_client: Client) -> None:
    job = jobs.enqueue(Fail(message="x"), max_attempts=1)
    run_jobs()
    made = bulk.start("retry", ids=[job.id], by="ada", reason="because")
    BulkItem.objects.update(
        state="skipped", detail="has no open dead letter", decided_at=made.created_at
    )
    Job.objects.filter(kind="jobs.bulk").update(state="cancelled", finished_at=made.created_at)
    url = f"/admin/jobs/bulk/{made.pk}/change/"
    assert "has no open dead letter" in admin_client.get(url).content.decode()
    text = admin_client.get(url, headers=ITALIAN).content.decode()
    assert "non ha una lettera morta aperta" in text
    assert BulkItem.objects.get().detail == "has no open dead letter"
    assert Bulk.objects.get().pk == made.pk and "Non prosegue:" in text


def test_a_form_says_in_the_readers_language_why_it_refuses(admin_client: Client) -> None:
    url = f"/admin/jobs/bulk/do/start/?action=retry&_selected={uuid4()}"
    assert "nessun job" in admin_client.get(url, headers=ITALIAN).content.decode()


def test_what_is_wrong_with_a_value_is_said_in_the_readers_language() -> None:
    [parameter] = [one for one in verbs.of(queues.set_limit).parameters if one.name == "at_once"]
    with pytest.raises(InvalidOption) as caught:
        parameter.checked(0)
    assert in_words(caught.value) == "at_once: must be at least 1"
    with translation.override("it"):
        assert in_words(caught.value) == "at_once: deve essere almeno 1"


def test_a_form_of_a_declaration_speaks_the_readers_language() -> None:
    form = form_of(verbs.of(pauses.pause))()
    assert form.fields["until"].label == "Until"
    with translation.override("it"):
        assert str(form.fields["until"].label) == "Fino a"
    limit: Any = form_of(verbs.of(queues.set_limit))().fields["at_once"]
    assert (limit.min_value, limit.max_value) == (1, 1_000_000)


def test_words_of_a_form_change_no_bound() -> None:
    fields: Any = LimitForm(row=SimpleNamespace(pk="default")).fields
    assert list(fields) == ["scope", "at_once", "rate", "burst", "until", "reason"]
    assert (fields["at_once"].min_value, fields["rate"].max_length) == (1, 40)
    assert not LimitForm(
        {"scope": "queue:default", "at_once": "0", "reason": "x"}, row=SimpleNamespace(pk="default")
    ).is_valid()

"""Many jobs at once: all or none, in their order, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jobs
from jobs.models import Job
from jobs.names import label_problem
from tests.jobs.factories import row, sql
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db


def test_ids_come_back_in_the_order_of_the_drafts() -> None:
    texts = [str(number) for number in range(1200)]
    ids = jobs.enqueue_many(Echo(text=text) for text in texts)
    assert ids == sorted(ids)
    found = {job.id: job.payload["text"] for job in Job.objects.filter(id__in=ids)}
    assert [found[job_id] for job_id in ids] == texts


def test_payloads_and_drafts_mix_in_a_generator() -> None:
    mine = uuid4()

    def drafts() -> Iterator[Any]:
        yield Noop()
        yield jobs.Draft(Echo(text="x"), job_id=mine, priority=9)

    ids = jobs.enqueue_many(drafts())
    assert ids[1] == mine and row(mine).priority == 9
    assert row(ids[0]).kind == "test.noop"


def test_nothing_is_enqueued_from_nothing() -> None:
    assert jobs.enqueue_many([]) == []
    assert jobs.enqueue_many(iter(())) == []


def bad_last(draft: Any) -> list[Any]:
    return [*(Noop() for _ in range(600)), draft]


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (jobs.Draft(Noop(), priority=101), jobs.errors.InvalidOption),
        (jobs.Draft(Echo(text="\0")), jobs.errors.InvalidPayload),
        (jobs.Draft(Noop(), tenant="a\tb"), jobs.errors.InvalidOption),
        ("a text", jobs.errors.InvalidPayload),
        (None, jobs.errors.InvalidPayload),
    ],
)
def test_one_bad_draft_refuses_all(last: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        jobs.enqueue_many(bad_last(last))
    assert not Job.objects.exists()


def test_an_input_that_breaks_off_enqueues_nothing() -> None:
    def drafts() -> Iterator[Noop]:
        yield Noop()
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        jobs.enqueue_many(drafts())
    assert not Job.objects.exists()


def test_an_id_twice_in_one_call_is_refused() -> None:
    mine = uuid4()
    with pytest.raises(jobs.errors.DuplicateJob) as caught:
        jobs.enqueue_many([Noop(), *(jobs.Draft(Noop(), job_id=mine) for _ in range(2))])
    assert caught.value.job_id == mine and not Job.objects.exists()


def test_a_known_id_is_refused_and_nothing_else_enters() -> None:
    mine = uuid4()
    jobs.enqueue(Noop(), job_id=mine)
    with pytest.raises(jobs.errors.DuplicateJob):
        jobs.enqueue_many([Noop(), jobs.Draft(Noop(), job_id=mine)])
    assert Job.objects.count() == 1


def test_a_refusal_by_the_database_enqueues_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import Error

    sql("ALTER TABLE jobs_job ADD CONSTRAINT no_b CHECK (payload->>'text' <> 'b')")
    with pytest.raises(Error), transaction.atomic():
        jobs.enqueue_many(Echo(text=text) for text in "aab")
    assert not Job.objects.exists()


# ---- Whatever is in the texts

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
awkward = st.sampled_from(
    [
        "\\N",
        "\\.",
        "\\",
        "\\\\",
        "\t",
        "\n",
        "\r\n",
        "\\n",
        '"',
        "'",
        "{}",
        "{",
        ",",
        "NULL",
        "\x7f",
    ]
)
anything = st.one_of(texts, awkward, st.lists(awkward, max_size=4).map("".join))
labels = anything.map(lambda text: text[:60]).filter(lambda text: not label_problem(text, 60))


class Mixed(jobs.Payload, kind="test.mixed"):
    texts: dict[str, str]
    numbers: list[float]
    whole: int


@pytest.fixture(autouse=True)
def mixed_kind() -> Iterator[None]:
    from jobs import registry

    @jobs.handler(Mixed)
    def run(ctx: jobs.Context, payload: Mixed) -> None: ...

    yield
    registry.unregister("test.mixed")


mixed = st.builds(
    Mixed,
    texts=st.dictionaries(anything, anything, max_size=3),
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    whole=st.integers(-(10**30), 10**30),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(mixed, labels, st.lists(labels, max_size=3)), min_size=1, max_size=4))
def test_every_text_comes_back_as_it_went_in(given: list[tuple[Mixed, str, list[str]]]) -> None:
    with transaction.atomic():
        drafts = [jobs.Draft(payload, tenant=t, tags=tags) for payload, t, tags in given]
        for ids in (
            jobs.enqueue_many(drafts),
            [jobs.enqueue(d.payload, tenant=d.tenant, tags=d.tags).id for d in drafts],
        ):
            for job_id, (payload, tenant, tags) in zip(ids, given, strict=True):
                job = row(job_id)
                assert (job.tenant, job.tags) == (tenant, tags)
                [(text, version)] = sql(
                    "SELECT payload::text, payload_version FROM jobs_job WHERE id = %s", [job_id]
                )
                assert Mixed.from_text(text, version) == payload
        transaction.set_rollback(True)

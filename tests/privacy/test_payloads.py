"""Sensitive payload fields: clear to the handler, sealed in the row, masked to everybody else."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError, field_validator, model_validator

import jobs
from jobs import registry, sensitive, testing
from jobs.errors import HandlerError, InvalidPayload, SealError, UnknownKey
from jobs.fields import HIDDEN
from jobs.keyring import Place, job_place
from jobs.operate.shown import public_payload, reveal_payload
from tests.privacy import vault
from tests.privacy.vault import Register, raw

CPF = "529.982.247-25"
HERE = Place("jobs_job", "payload", "7", "acme")
LIMIT = 65536


class Rich(jobs.Payload, kind="privacy.rich"):
    plain: str = ""
    text: jobs.Sensitive[str] = ""
    number: jobs.Sensitive[int | None] = None
    money: jobs.Sensitive[Decimal] = Decimal(0)
    day: jobs.Sensitive[date] = date(2026, 1, 1)
    ids: jobs.Sensitive[tuple[UUID, ...]] = ()
    free: jobs.Sensitive[dict[str, Any]] = {}


storable = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50)
rich = st.builds(
    Rich,
    plain=storable,
    text=storable,
    number=st.none() | st.integers(-(10**12), 10**12),
    money=st.decimals(allow_nan=False, allow_infinity=False),
    day=st.dates(),
    ids=st.lists(st.uuids(), max_size=3).map(tuple),
    free=st.dictionaries(storable, storable | st.lists(st.integers()), max_size=3),
)


@limits(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rich)
def test_payloads_come_back_as_they_were(keys: Any, payload: Rich) -> None:
    assert Rich.from_text(payload.to_text(LIMIT, HERE), 1, HERE) == payload


@limits(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(st.characters(categories=["L", "N"], max_codepoint=127), min_size=6))
def test_nothing_shows_a_sensitive_value(keys: Any, secret: str) -> None:
    secret = f"Q{secret}Z"
    payload = Rich(plain="shown", text=secret, free={secret: [secret]})
    draft = jobs.Draft(payload)
    shown = [repr(payload), str(payload), f"{payload}", repr(draft), repr([payload])]
    shown += [str(payload.model_dump()), payload.model_dump_json(), payload.to_text(LIMIT, HERE)]
    shown += [str(payload.model_dump(mode="json")), str(list(payload.__repr_args__()))]
    for text in shown:
        assert secret not in text
    assert "shown" in repr(payload)
    assert (payload.text, payload.free) == (secret, {secret: [secret]})
    assert payload.secrets() >= {secret}


def test_fields_do_not_open_in_each_others_place(keys: Any) -> None:
    data = json.loads(Rich(text="one", free={"a": 1}).to_text(LIMIT, HERE))
    data["text"], data["free"] = data["free"], data["text"]
    with pytest.raises(InvalidPayload, match="does not open"):
        Rich.from_text(json.dumps(data), 1, HERE)


@pytest.mark.parametrize("place", [job_place(uuid4(), "acme"), Place("jobs_job", "payload", "7")])
def test_payloads_do_not_open_in_other_rows_or_tenants(keys: Any, place: Place) -> None:
    text = Rich(text="one").to_text(LIMIT, HERE)
    with pytest.raises(InvalidPayload, match="does not open"):
        Rich.from_text(text, 1, place)


def test_nothing_is_stored_without_a_place(keys: Any) -> None:
    with pytest.raises(SealError, match="need a place"):
        Rich().to_text(LIMIT)
    with pytest.raises(InvalidPayload, match="nobody says where it belongs"):
        Rich.from_text(Rich().to_text(LIMIT, HERE), 1)


def test_marks_inside_of_a_type_are_refused() -> None:
    class Inner(BaseModel):
        name: jobs.Sensitive[str]

    wrong: list[Any] = [list[jobs.Sensitive[str]], jobs.Sensitive[str] | None]
    wrong += [Inner, dict[str, Inner]]
    for annotation in wrong:
        with pytest.raises(HandlerError, match="declare the whole field"):
            type(
                "Wrong",
                (jobs.Payload,),
                {"__annotations__": {"x": annotation}, "__module__": __name__},
                kind="privacy.wrong",
            )


def test_subclasses_keep_their_bases_sensitive_fields() -> None:
    class Base(jobs.Payload):
        cpf: jobs.Sensitive[str]

    class Child(Base, kind="privacy.child"):
        number: int

    assert Child.__sensitive__ == {"cpf"}
    assert "529" not in repr(Child(cpf=CPF, number=1))


def test_a_type_that_is_known_only_later_is_sealed_all_the_same(keys: Any) -> None:
    space: dict[str, Any] = {"jobs": jobs, "__name__": "tests.privacy.later"}
    source = (
        "class Late(jobs.Payload, kind='privacy.late'):\n"
        "    cpf: 'Document'\n"
        "class LateWrong(jobs.Payload, kind='privacy.late_wrong'):\n"
        "    cpf: 'list[Document]'\n"
    )
    exec(source, space)  # noqa: S102 - types in texts, resolved when they are needed
    late: Any = space["Late"]
    space["Document"] = jobs.Sensitive[str]
    late.model_rebuild(_types_namespace=space)
    assert late.__sensitive__ == {"cpf"}
    assert CPF not in late(cpf=CPF).to_text(LIMIT, HERE)
    with pytest.raises(HandlerError, match="declare the whole field"):
        space["LateWrong"].model_rebuild(_types_namespace=space)


def test_data_cannot_pretend_to_be_sealed(db: None) -> None:
    class Free(jobs.Payload, kind="privacy.free"):
        data: Any
        cpf: str = ""

    with pytest.raises(InvalidPayload, match="data: the key '\\$sealed' is reserved"):
        Free(data={"$sealed": "enc1.old.AAAA"}).to_text(LIMIT)
    assert Free(data='{"$sealed": "x"}').to_text(LIMIT)
    assert Free(data=["$sealed"]).to_text(LIMIT)


def test_a_field_that_is_sensitive_no_more_still_opens(keys: Any) -> None:
    class Former(jobs.Payload, kind="privacy.former"):
        plain: str = ""
        text: str

    text = sensitive.opened(Rich(text="one").to_text(LIMIT, HERE), HERE)
    assert json.loads(text)["text"] == "one"
    sealed = json.loads(Rich(text="one").to_text(LIMIT, HERE))
    kept = json.dumps({"text": sealed["text"]})
    assert Former.from_text(kept, 1, HERE).text == "one"
    with pytest.raises(InvalidPayload):
        Former.from_text(kept, 1)


def test_older_versions_are_opened_before_they_are_upcast(keys: Any) -> None:
    class Renamed(jobs.Payload, kind="privacy.renamed", version=2):
        document: jobs.Sensitive[str]

        @classmethod
        def upcast(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
            if "cpf" not in data:
                raise KeyError(f"none in {data}")
            return {"document": data["cpf"]}

    old = {"cpf": sensitive.sealed(CPF, HERE, "cpf", LIMIT)}
    assert Renamed.from_text(json.dumps(old), 1, HERE).document == CPF
    wrong = {"other": sensitive.sealed(CPF, HERE, "other", LIMIT)}
    with pytest.raises(InvalidPayload) as caught:
        Renamed.from_text(json.dumps(wrong), 1, HERE)
    assert str(caught.value) == "payload of 'privacy.renamed': upcast: KeyError"


# ---- errors


class Strict(jobs.Payload, kind="privacy.strict"):
    cpf: jobs.Sensitive[str]
    tags: jobs.Sensitive[dict[str, int]] = {}

    @field_validator("cpf")
    @classmethod
    def _check(cls, value: str) -> str:
        if value.startswith("bad"):
            raise ValueError(f"{value} is wrong")
        return value

    @model_validator(mode="after")
    def _check_all(self) -> Strict:
        if self.cpf == "all":
            raise ValueError(f"{self.cpf}-secret is wrong")
        return self


@pytest.mark.parametrize(
    "data",
    [
        {"cpf": "bad-secret"},
        {"cpf": ["secret"]},
        {"cpf": "all"},
        {"cpf": "x", "tags": {"secret": "secret"}},
        {"cpf": "x", "more": "secret"},
        {"cpf": {"secret": 1}, "tags": "secret"},
    ],
)
def test_validation_errors_do_not_repeat_the_value(keys: Any, data: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayload) as caught:
        Strict.build(data)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_pydantics_own_error_does_not_show_its_input() -> None:
    with pytest.raises(ValidationError) as caught:
        Register(number="many", cpf=52998224725)  # type: ignore[arg-type]
    assert "529" not in str(caught.value)
    assert "many" not in str(caught.value)


@pytest.mark.parametrize("value", ["a\0b", "\ud800", {"x\0y": 1}, {"k": float("nan")}])
def test_what_cannot_be_stored_is_refused_by_the_name_of_its_field(keys: Any, value: Any) -> None:
    payload = Rich.model_construct(free={"hunter2": value})
    with pytest.raises(InvalidPayload, match=r"payload of 'privacy\.rich': free: ") as caught:
        payload.to_text(LIMIT, HERE)
    assert "hunter2" not in str(caught.value)


def test_the_limit_counts_what_is_stored(keys: Any) -> None:
    with pytest.raises(InvalidPayload, match="the limit is 300"):
        Rich(text="x" * 300).to_text(300, HERE)


# ---- jobs


def test_the_row_is_sealed_and_the_handler_sees_the_value(register: Any) -> None:
    made = jobs.enqueue(Register(number=7, cpf=CPF), tenant="acme")
    [(text,)] = raw("SELECT payload::text FROM jobs_job")
    assert CPF not in text
    assert sensitive.key_ids(text) == {"old"}
    summary = testing.run_jobs()
    assert summary.succeeded == 1, summary
    job = jobs.Job.objects.get(pk=made.id)
    assert job.result == {"given": HIDDEN, "text": f"served {HIDDEN}", "number": 7}
    assert public_payload(job) == {"number": 7, "how": "succeed", "cpf": HIDDEN, "contact": HIDDEN}


def test_many_at_once_are_sealed_each_for_its_row(register: Any) -> None:
    ids = jobs.enqueue_many([Register(number=n, cpf=CPF) for n in range(3)])
    assert {job.pk for job in testing.enqueued(Register, cpf=CPF)} == set(ids)
    assert not raw("SELECT 1 FROM jobs_job WHERE payload::text LIKE %s", f"%{CPF}%")
    raw(
        "UPDATE jobs_job SET payload = (SELECT payload FROM jobs_job WHERE id = %s) WHERE id = %s",
        ids[0],
        ids[1],
    )
    testing.run_jobs()
    assert raw("SELECT state, reason FROM jobs_job ORDER BY id") == [
        ("succeeded", ""),
        ("failed", "bad_payload"),
        ("succeeded", ""),
    ]


def test_the_same_key_is_compared_by_what_is_sealed(register: Any) -> None:
    unique = jobs.Unique("c-1", on_conflict="raise")
    first = jobs.enqueue(Register(number=1, cpf=CPF), unique=unique)
    again = jobs.enqueue(Register(number=1, cpf=CPF), unique=unique)
    assert again.id == first.id
    with pytest.raises(jobs.errors.KeyConflict) as caught:
        jobs.enqueue(Register(number=1, cpf="111.444.777-35"), unique=unique)
    assert "111" not in str(caught.value)


def test_a_waiting_job_takes_a_sealed_payload_over(register: Any) -> None:
    unique = jobs.Unique("c-1", for_="waiting")
    first = jobs.enqueue(Register(number=1, cpf="old"), unique=unique, delay=5)
    second = jobs.enqueue(Register(number=2, cpf=CPF), unique=unique, delay=5)
    assert second.id == first.id
    [job] = testing.enqueued(Register, number=2, cpf=CPF)
    assert job.pk == first.id


def test_a_bulk_with_keys_compares_and_replaces_what_is_sealed(register: Any) -> None:
    def drafts(cpf: str, unique: jobs.Unique) -> list[jobs.Draft]:
        return [jobs.Draft(Register(number=n, cpf=cpf), unique=unique) for n in range(1)]

    strict = jobs.Unique("c-1", on_conflict="raise")
    [first] = jobs.enqueue_many(drafts(CPF, strict))
    assert jobs.enqueue_many(drafts(CPF, strict)) == [first]
    with pytest.raises(jobs.errors.KeyConflict):
        jobs.enqueue_many(drafts("111.444.777-35", strict))
    waiting = jobs.Unique("c-2", for_="waiting")
    [second] = jobs.enqueue_many(drafts("old", waiting))
    assert jobs.enqueue_many(drafts("new", waiting)) == [second]
    assert testing.run_jobs().succeeded == 2
    assert [job.pk for job in testing.enqueued(Register, cpf="new")] == [second]


def test_a_schedule_holds_its_payload_sealed(register: Any, admin_client: Client) -> None:
    from jobs.operate import schedules

    with testing.freeze_clock() as clock:
        schedules.create(
            "nightly",
            Register(number=1, cpf=CPF),
            by="ana",
            reason="test",
            interval=timedelta(hours=1),
        )
        assert not raw("SELECT 1 FROM jobs_schedule WHERE payload::text LIKE %s", f"%{CPF}%")
        clock.tick(3601)
        from jobs.engine.schedules import tick

        [made] = tick()
    [job] = testing.enqueued(Register, cpf=CPF)
    assert job.pk == made
    [(number,)] = raw("SELECT id FROM jobs_schedule WHERE name = 'nightly'")
    page = admin_client.get(f"/admin/jobs/schedule/{number}/change/")
    assert page.status_code == 200
    assert "$sealed" not in page.content.decode()


def test_a_callback_of_a_batch_takes_no_sensitive_fields(register: Any) -> None:
    from jobs.operate.batches import batch

    with pytest.raises(jobs.errors.InvalidOption, match="on_success: a callback's payload"):
        batch("x", on_success=Register(number=1, cpf=CPF))


def test_the_handlers_contract_can_be_checked(register: Any) -> None:
    assert testing.check_handler(Register(number=1, cpf=CPF))["number"] == 1


def test_a_job_waits_for_a_key_that_is_not_here_yet(register: Any, settings: Any) -> None:
    made = jobs.enqueue(Register(number=1, cpf=CPF))
    settings.JOBS = vault.ONLY_NEW
    with testing.freeze_clock() as clock:
        assert testing.run_jobs().waiting == 1
        assert raw("SELECT failures, attempt FROM jobs_job") == [(0, 1)]
        settings.JOBS = vault.BOTH
        clock.tick(61)
        assert testing.run_jobs().succeeded == 1
    history = str(jobs.Job.objects.get(pk=made.id).history)
    assert "no key old" in history


def test_without_a_key_nothing_is_enqueued(register: Any, settings: Any) -> None:
    settings.JOBS = {}
    with pytest.raises(jobs.errors.ConfigError, match="JOBS\\['KEYS'\\] is missing"):
        jobs.enqueue(Register(number=1, cpf=CPF))
    assert raw("SELECT 1 FROM jobs_job") == []


def test_payloads_without_sensitive_fields_ask_for_no_key(db: None, settings: Any) -> None:
    from tests.specimens.handlers import Echo

    settings.JOBS = {}
    jobs.enqueue(Echo(text="hello"))
    assert testing.run_jobs().succeeded == 1


def test_revealing_asks_who_and_why(register: Any, caplog: pytest.LogCaptureFixture) -> None:
    made = jobs.enqueue(Register(number=7, cpf=CPF), tenant="acme")
    with pytest.raises(jobs.errors.InvalidOption, match="reason"):
        reveal_payload(made.id, by="ana", reason="")
    assert reveal_payload(made.id, by="ana", reason="the customer asked")["cpf"] == CPF
    with pytest.raises(jobs.errors.UnknownJob):
        reveal_payload(uuid4(), by="ana", reason="x")
    with pytest.raises(UnknownKey):
        from jobs.keyring import KeyRing

        KeyRing({"x": b"x" * 32}).open(
            json.loads(raw("SELECT payload::text FROM jobs_job")[0][0])["cpf"]["$sealed"], HERE
        )


def test_faces_hide_what_stands_under_a_telling_name(db: None) -> None:
    class Login(jobs.Payload, kind="privacy.login"):
        user: str
        password: str

    jobs.handler(Login)(lambda ctx, payload: None)
    try:
        made = jobs.enqueue(Login(user="ana@example.com", password="hunter2"))
        job = jobs.Job.objects.get(pk=made.id)
        assert public_payload(job) == {"user": "ana@example.com", "password": HIDDEN}
    finally:
        registry.unregister("privacy.login")

"""The contract of the job: every rule of it, by examples and by properties."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import jobs
from emailgw import (
    EMAIL_JOB_CONFIG,
    EmailSendJobData,
    EmailSendJobOptions,
    validate_email_job_data,
)
from emailgw.payloads import InvalidEmailJob, engine_priority
from jobs import registry

ID = "123e4567-e89b-42d3-a456-426614174000"
HASH = "a3" * 32


def data(**fields: Any) -> dict[str, Any]:
    found = {
        "outboxId": ID, "companyId": "789e4567-e89b-42d3-a456-426614174999",
        "requestId": "req-abc123", "to": "cliente@example.com",
        "subject": "Seu boleto está disponível", "htmlRef": ID,
        "recipient": {
            "externalId": "CUST-12345", "cpfCnpjHash": HASH, "nome": "João da Silva",
            "email": "cliente@example.com",
        },
        "attempt": 1, "enqueuedAt": "2025-10-19T12:00:00.000Z", **fields,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def recipient(**fields: Any) -> dict[str, Any]:
    return {"externalId": "C", "email": "cliente@example.com", **fields}


def test_the_example_of_the_contract_is_valid() -> None:
    made = validate_email_job_data(data())
    assert (made.outboxId, made.attempt) == (UUID(ID), 1)
    assert made.enqueuedAt == datetime(2025, 10, 19, 12, tzinfo=UTC)


def test_the_numbers_of_the_contract() -> None:
    c = EMAIL_JOB_CONFIG
    assert (c.QUEUE_NAME, c.DEFAULT_TTL, c.DEFAULT_PRIORITY) == ("email:send", 86_400_000, 5)
    assert (c.MAX_ATTEMPTS, c.BACKOFF_DELAYS, c.DLQ_TTL) == (5, (1, 5, 30, 120, 600), 604_800_000)
    handler = registry.get("email:send")
    assert (handler.queue, handler.max_attempts, handler.expires) == ("email:send", 5, 86_400)
    assert (handler.replayable, handler.dead_letter) == (False, True)
    assert [handler.backoff.delay(n, 0.9) for n in (1, 2, 3, 4)] == [1, 5, 30, 120]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"outboxId": "not-a-uuid"}, "outboxId: must be a valid UUID"),
        ({"companyId": ID.replace("-", "")}, "companyId: must be a valid UUID"),
        ({"to": "no address"}, "to: must be a valid email address"),
        ({"to": f"{'a' * 60}@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 60}.com"}, "at most 254"),
        ({"subject": ""}, "subject: String should have at least 1"),
        ({"subject": "x" * 151}, "subject: String should have at most 150"),
        ({"subject": "one\ntwo"}, "subject: must not contain line breaks"),
        ({"htmlRef": ""}, "htmlRef: must be a valid UUID"),
        ({"recipient": recipient(email="other@example.com")}, "recipient.email must match to"),
        ({"recipient": {"email": "cliente@example.com"}}, "At least one recipient identifier"),
        ({"recipient": recipient(cpfCnpj="52998224725")}, "recipient.cpfCnpj: Extra inputs"),
        ({"recipient": recipient(cpfCnpjHash="529.982.247-25")}, "recipient.cpfCnpjHash"),
        ({"attempt": 0}, "attempt: Input should be greater"),
        ({"attempt": 6}, "attempt: Input should be less"),
        ({"attempt": "1"}, "attempt: Input should be a valid integer"),
        ({"attempt": True}, "attempt: Input should be a valid integer"),
        ({"enqueuedAt": "yesterday"}, "enqueuedAt: must be a valid ISO 8601"),
        ({"enqueuedAt": "1700000000"}, "enqueuedAt: must be a valid ISO 8601"),
        ({"enqueuedAt": "2025-10-19T12:00:00"}, "enqueuedAt: must be a valid ISO 8601"),
        ({"enqueuedAt": "2025-13-19T12:00:00Z"}, "enqueuedAt: must be a valid ISO 8601"),
        ({"cc": ["a@x.test"] * 6}, "cc: List should have at most 5"),
        ({"bcc": ["a@x.test"] * 6}, "bcc: List should have at most 5"),
        ({"tags": ["a"] * 6}, "tags: List should have at most 5"),
        ({"tags": ["a b"]}, "tags.0: must be 1 to 32"),
        ({"html": "<p>x</p>"}, "html: Extra inputs"),
        ({"headers": {"X-Custom-A": "1", "x-custom-a": "2"}}, "headers: "),
        ({"headers": {f"X-Custom-{n}": "1" for n in range(11)}}, "headers: must be at most 10"),
    ],
)  # fmt: skip
def test_every_rule_of_the_contract(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidEmailJob, match=told) as caught:
        validate_email_job_data(data(**fields))
    assert "cliente" not in str(caught.value) and "529" not in str(caught.value)
    with pytest.raises((jobs.errors.InvalidPayload, ValidationError)):
        EmailSendJobData.build(data(**fields))


@pytest.mark.parametrize("field", sorted(set(data()) - {"attempt"}))
def test_what_is_required_is_required(field: str) -> None:
    with pytest.raises(InvalidEmailJob, match=f"{field}: Field required"):
        validate_email_job_data(data(**{field: None}))


LINES = ["\r", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029",
         "\0", "\t", "\x1b", "\u202e", "\u200b"]  # fmt: skip


@pytest.mark.parametrize("mark", LINES)
def test_nothing_that_ends_a_line_gets_into_a_header(mark: str) -> None:
    evil = f"a{mark}Bcc: evil@y.test"
    for fields in (
        {"subject": evil}, {"requestId": evil}, {"tags": [evil]}, {"replyTo": f"a{mark}@x.test"},
        {"headers": {"X-Custom-A": evil}}, {"headers": {f"X-Custom-A{mark}Bcc": "x"}},
        {"recipient": recipient(nome=evil)}, {"recipient": recipient(externalId=evil)},
        {"recipient": recipient(razaoSocial=evil)}, {"cc": [f"a@x.test{mark}"]},
    ):  # fmt: skip
        with pytest.raises(InvalidEmailJob):
            validate_email_job_data(data(**fields))


@pytest.mark.parametrize(
    "name",
    ["To", "From", "Sender", "Return-Path", "Bcc", "Cc", "Content-Type", "MIME-Version", "Date",
     "DKIM-Signature", "Received", "Reply-To", "Message-ID", "List-Unsubscribe", "X-Mailer",
     "X-Custom-", "X-Custom-ä", "X-Custom-A:", "X-Custom-A B", "X-Custom-\u017f", "",
     "X-SES-CONFIGURATION-SET",
     "X-Custom-" + "a" * 56],
)  # fmt: skip
def test_nobody_sets_a_header_of_ours(name: str) -> None:
    with pytest.raises(InvalidEmailJob, match="headers: "):
        validate_email_job_data(data(headers={name: "x"}))


SMUGGLED = [
    "a@x.test, evil@y.test", "a@x.test,evil@y.test", "a@x.test;evil@y.test",
    "Foo, evil@y.test <a@x.test>", "Foo <a@x.test>", "<a@x.test>", "a@x.test]<evil@y.test>",
    '"a@x.test> BODY"@evil.test', '"a b"@x.test', "@evil.test:a@x.test", "a@x.test(<b@y.test>)",
    "a(comment)@x.test", "a%y.test@x.test", "evil!a@x.test", "evil!a@x.test@y.test", "a@b@x.test",
    "a@[127.0.0.1]",
    "a@x", "a@localhost", "a@.x.test", ".a@x.test", "a.@x.test", "a..b@x.test", "a@-x.test",
    "a@x-.test", "a@x..test", "a@x.test.", " a@x.test", "a@x.test ", "a@x.test\x00",
    "a@\u0445.test",
    "\uff41@x.test", "a@x。test", f"{'a' * 65}@x.test", "a@x.invalid", "a@x_y.test", "", "@", "a@",
    "postmaster", "a@x.test\r\nRCPT TO:<evil@y.test>", "a\\@x.test",
]  # fmt: skip


@pytest.mark.parametrize("address", SMUGGLED)
def test_no_address_smuggles_another(address: str) -> None:
    for fields in (
        {"to": address, "recipient": recipient(email=address)}, {"cc": [address]},
        {"bcc": [address]}, {"replyTo": address},
    ):  # fmt: skip
        with pytest.raises(InvalidEmailJob):
            validate_email_job_data(data(**fields))


@pytest.mark.parametrize(
    "ref",
    ["../../etc/passwd", "..%2f..%2fetc", "%00", "/etc/passwd", "C:\\x", "\\\\host\\share",
     "s3://other/key", "file:///etc/passwd", "https://x.test/a", ID + "/..", ID + "\x00",
     "urn:uuid:" + ID, "{" + ID + "}", ID.replace("-", ""), " " + ID],
)  # fmt: skip
def test_content_is_referred_to_by_an_id_only(ref: str) -> None:
    with pytest.raises(InvalidEmailJob, match="htmlRef"):
        validate_email_job_data(data(htmlRef=ref))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@patient
@given(field=st.sampled_from(sorted(EmailSendJobData.model_fields)), value=JSON)
def test_whatever_is_given_is_valid_or_refused_by_name(field: str, value: Any) -> None:
    try:
        made = validate_email_job_data({**data(), field: value})
    except InvalidEmailJob as error:
        assert error.field.startswith(field) or error.field in ("", "recipient")
    else:
        assert made.recipient.email == made.to
        assert len(made.envelope) <= 11


@patient
@given(st.text(min_size=1, max_size=150))
def test_a_subject_that_is_taken_has_one_line(subject: str) -> None:
    try:
        made = validate_email_job_data(data(subject=subject))
    except InvalidEmailJob:
        return
    assert len(made.subject.splitlines()) == 1 and made.subject == subject


@patient
@given(JSON)
def test_what_is_no_job_at_all_is_refused(value: Any) -> None:
    with pytest.raises(InvalidEmailJob):
        validate_email_job_data(value)


@pytest.mark.parametrize(
    "subject",
    [
        "\U0001f468\u200d\U0001f469 together",
        "\u200f\u05e9\u05dc\u05d5\u05dd",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    ],
)
def test_joined_emoji_and_text_from_right_to_left_are_texts(subject: str) -> None:
    assert validate_email_job_data(data(subject=subject)).subject == subject


def test_the_names_of_headers_have_no_case() -> None:
    headers = {"x-custom-a": "1", "X-PRIORITY": "1"}
    assert validate_email_job_data(data(headers=headers)).headers == headers


def test_an_id_may_be_a_text() -> None:
    given: dict[str, Any] = {"jobId": ID}
    assert EmailSendJobOptions(**given).jobId == UUID(ID)


def test_nothing_personal_is_shown() -> None:
    made = validate_email_job_data(data(cc=["bo@x.test"], headers={"X-Custom-A": "secret"}))
    told = f"{made!r} {made} {made.model_dump()} {made.model_dump_json()}"
    for secret in ("cliente", "boleto", "João", HASH[:10], "bo@x", "secret", "CUST"):
        assert secret not in told


@pytest.mark.parametrize(
    "given",
    [{"priority": 0}, {"priority": 11}, {"delay": -1}, {"delay": 86_400_000}, {"ttl": 0},
     {"ttl": 86_400_001}, {"delay": 5_000, "ttl": 5_000}, {"jobId": "x"}, {"colour": 1}],
)  # fmt: skip
def test_options_beyond_the_contract_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EmailSendJobOptions(**{"jobId": UUID(ID), **given})


def test_one_is_the_most_urgent() -> None:
    scale = [engine_priority(p) for p in range(1, 11)]
    assert scale == sorted(scale, reverse=True) and len(set(scale)) == 10
    assert engine_priority(EMAIL_JOB_CONFIG.DEFAULT_PRIORITY) == 0
    assert min(scale) >= -100 and max(scale) <= 100

"""The gateway for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils import translation

from config import environment
from emailgw import queries
from emailgw.models import Company, OutboxEmail
from jobs.models import Audit
from jobs.testing import freeze_clock, run_jobs
from tests.api.conftest import Caller
from tests.emailgw import factories
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller(company: Company) -> Caller:
    return Caller(tenants=[str(company.pk)])


def test_an_email_is_handed_in_and_followed(caller: Caller, company: Company, sink: Sink) -> None:
    answer = caller("POST", "/email/send", {"email": factories.request()}, Idempotency_Key="k")
    assert answer.status_code == 202, answer.content
    again = caller("POST", "/email/send", {"email": factories.request()}, Idempotency_Key="k")
    assert again.data == answer.data and answer.data["jobId"] == answer.data["outboxId"]
    assert run_jobs().succeeded == 1
    row = OutboxEmail.objects.get()
    assert str(row.pk) == answer.data["outboxId"]
    [listed] = caller("GET", "/emails?status=SENT").data["data"]
    assert (listed["id"], listed["to"]) == (str(row.pk), "a***@c***.test")
    told = caller("GET", f"/emails/{row.pk}")
    assert told.data["events"][-1]["type"] == "SENT"
    assert "ana@" not in told.content.decode()


@pytest.mark.parametrize(
    ("email", "status", "code", "pointer"),
    [
        ({"to": "a@x.test, b@y.test"}, 422, "VALIDATION_ERROR", "/email/to"),
        ({"recipient": {"cpfCnpj": "1234"}}, 422, "VALIDATION_ERROR", "/email/recipient/cpfCnpj"),
        ({"subject": "a\nBcc: x@y.test"}, 422, "VALIDATION_ERROR", "/email/subject"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(
    caller: Caller, email: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    answer = caller("POST", "/email/send", {"email": factories.request(**email)})
    assert (answer.status_code, answer.data["error"]["code"]) == (status, code)
    assert answer.data["error"]["requestId"] == answer["X-Request-ID"]
    assert answer.data["error"]["details"][0]["field"] == pointer[1:].replace("/", ".")
    assert answer.data["errors"][0]["pointer"] == pointer
    assert "1234" not in answer.content.decode() and "y.test" not in answer.content.decode()


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"email": factories.request(to="x", subject="", tags=["a b"])},
         ["email.to", "email.subject", "email.tags.0"]),
        ({"email": factories.request(cc=["ana@customers.test"])}, ["email.cc"]),
        ({"email": factories.request(recipient={"email": "b@x.test"})}, ["email.recipient"]),
        ({"email": factories.request(replyTo="b@x.test")}, ["email.replyTo"]),
        ({"email": factories.request(), "priority": 11}, ["priority"]),
        ({"email": factories.request(), "delay": 86_400_000}, ["delay"]),
        ({"email": factories.request(), "company": "11111111-1111-4111-8111-111111111111"},
         ["company"]),
    ],
)  # fmt: skip
def test_every_problem_of_a_request_is_named_where_it_is(
    caller: Caller, company: Company, body: dict[str, Any], fields: list[str]
) -> None:
    answer = caller("POST", "/email/send", body)
    assert [one["field"] for one in answer.data["error"]["details"]] == fields
    pointers = ["/" + field.replace(".", "/") for field in fields]
    assert [one["pointer"] for one in answer.data["errors"]] == pointers


def test_an_external_id_that_is_used_again_is_named(caller: Caller, company: Company) -> None:
    caller("POST", "/email/send", {"email": factories.request(externalId="E-1")})
    other = {"email": factories.request(externalId="E-1", subject="Another")}
    answer = caller("POST", "/email/send", other)
    assert answer.status_code == 409
    assert answer.data["error"]["details"][0]["field"] == "email.externalId"


def test_an_email_answers_with_its_own_ids_and_those_of_its_provider(
    caller: Caller, company: Company, sink: Sink
) -> None:
    asked = {"email": factories.request(externalId="E-1")}
    first = caller("POST", "/email/send", asked).data
    assert (first["externalId"], first["recipient"]) == ("E-1", {"externalId": "CUST-1"})
    assert caller("POST", "/email/send", asked).data == first
    path = f"/emails/{first['outboxId']}"
    waiting = caller("GET", path).data
    assert (waiting["externalId"], waiting["provider"]) == ("E-1", "smtp")
    assert (waiting["messageId"], waiting["durationMs"]) == (None, None)
    run_jobs()
    sent = caller("GET", path).data
    assert sent["messageId"] == str(sink.taken[0].message["Message-ID"])
    assert sent["durationMs"] >= 0


def test_a_recipient_is_found_at_every_address_it_has_had(caller: Caller, company: Company) -> None:
    for address in ("a@x.test", "b@x.test", "a@x.test"):
        asked = factories.request(to=address, recipient={"externalId": "C-9"})
        assert caller("POST", "/email/send", {"email": asked}).status_code == 202
    assert len(caller("GET", "/emails?recipientExternalId=C-9").data["data"]) == 3


@pytest.mark.parametrize("until", ["2020-01-01T00:00Z", "2090-01-01T00:00"])
def test_a_suppression_ends_in_the_future_of_a_time_zone(
    caller: Caller, company: Company, until: str
) -> None:
    body = {"email": "a@x.test", "reason": "asked", "until": until}
    answer = caller("POST", "/email/suppressions", body)
    assert (answer.status_code, answer.data["errors"][0]["pointer"]) == (422, "/until")


def test_another_company_does_not_exist(caller: Caller, company: Company) -> None:
    other = factories.company("Other")
    asked = {"email": factories.request(), "company": str(other.pk)}
    assert caller("POST", "/email/send", asked).status_code == 404
    stranger = Caller(name="stranger", tenants=[str(other.pk)])
    made = caller("POST", "/email/send", {"email": factories.request()}).data["outboxId"]
    assert stranger("GET", f"/emails/{made}").status_code == 404
    assert stranger("GET", "/emails").data["data"] == []
    resend = stranger("POST", f"/emails/{made}/resend", {"reason": "x"})
    assert resend.status_code == 404


def test_a_limit_says_when(caller: Caller, company: Company) -> None:
    Company.objects.update(per_minute=1)
    caller("POST", "/email/send", {"email": factories.request()})
    answer = caller("POST", "/email/send", {"email": factories.request()})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 61


def test_a_dead_letter_is_resent(caller: Caller, company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "550 no" if step == "RCPT" else None
    made = caller("POST", "/email/send", {"email": factories.request()}).data["outboxId"]
    run_jobs()
    assert caller("POST", f"/emails/{made}/resend", {"reason": ""}).status_code == 422
    sink.script = lambda step, address, times: None
    answer = caller("POST", f"/emails/{made}/resend", {"reason": "the box is back"})
    assert answer.status_code == 200, answer.content
    run_jobs()
    assert caller("GET", f"/emails/{made}").data["status"] == "SENT"


def test_a_key_with_another_email_is_a_conflict(caller: Caller, company: Company) -> None:
    caller("POST", "/email/send", {"email": factories.request()}, Idempotency_Key="k")
    other = {"email": factories.request(subject="Another")}
    answer = caller("POST", "/email/send", other, Idempotency_Key="k")
    assert (answer.status_code, answer.data["error"]["code"]) == (409, "CONFLICT")
    assert OutboxEmail.objects.count() == 1


def test_every_refusal_has_the_envelope(caller: Caller, company: Company) -> None:
    for answer, code in (
        (caller("POST", "/email/send", {}, Authorization="Bearer none"), "UNAUTHORIZED"),
        (caller("POST", "/email/send", b"{"), "BAD_REQUEST"),
        (caller("POST", "/email/send", {}), "VALIDATION_ERROR"),
        (caller("GET", f"/emails/{company.pk}"), "NOT_FOUND"),
        (Caller(name="b", permissions=["view_job"])("POST", "/email/send", {}), "FORBIDDEN"),
    ):
        assert answer.data["error"]["code"] == code, answer.content
        assert set(answer.data["error"]) == {
            "code", "message", "requestId", "timestamp", "details",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/emails/none"), ("GET", "/emails/11111111-1111-4111-8111-11111111111"),
        ("POST", "/emails/none/resend"), ("GET", "/email/batches/none"), ("DELETE", "/emails/a/b"),
        ("POST", "/email/suppressions/none/lift"), ("PUT", "/email/none"),
    ],
)  # fmt: skip
def test_an_address_that_is_no_emails_is_refused_like_any_other(
    caller: Caller, method: str, path: str
) -> None:
    answer = caller(method, path, {"reason": "x"} if method == "POST" else None)
    assert (answer.status_code, answer.data["error"]["code"]) == (404, "NOT_FOUND")
    assert answer.data["error"]["requestId"] == answer["X-Request-ID"]
    unknown = caller(method, path, None, Authorization="Bearer none")
    assert (unknown.status_code, unknown.data["error"]["code"]) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("PUT", "/emails", "GET"), ("DELETE", "/email/send", "POST"),
     ("PUT", "/email/companies", "GET, POST")],
)  # fmt: skip
def test_a_method_that_is_not_allowed_has_the_envelope(
    caller: Caller, method: str, path: str, allowed: str
) -> None:
    answer = caller(method, path, {})
    assert (answer.status_code, answer.data["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.data["error"]["requestId"] == answer["X-Request-ID"]
    assert set(answer["Allow"].split(", ")) == set(allowed.split(", "))
    assert "error" not in caller(method, "/limits", {}).data  # the platform's own have none


@pytest.mark.parametrize("path", ["/email/send", "/email/batches", "/email/preview"])
def test_a_key_has_128_characters_at_most(caller: Caller, company: Company, path: str) -> None:
    wrong = ["k" * 129, "k" * 255, "a key", "k.1", ""]
    for key in wrong:
        answer = caller("POST", path, {"email": factories.request()}, Idempotency_Key=key)
        assert (answer.status_code, answer.data["error"]["code"]) == (400, "BAD_REQUEST"), key
    one = {"/email/send": {"email": factories.request()},
           "/email/batches": {"emails": [factories.request()]},
           "/email/preview": {"html": "<p>hi</p>"}}[path]  # fmt: skip
    assert caller("POST", path, one, Idempotency_Key="K_-9" * 32).status_code in (200, 202)


def test_a_refusal_names_states_by_their_codes_whatever_language_is_spoken(
    caller: Caller, company: Company, sink: Sink
) -> None:
    made = caller("POST", "/email/send", {"email": factories.request()}).data["outboxId"]
    for status in ("ENQUEUED", "SENT_ATTEMPT", "SENT"):
        OutboxEmail.objects.update(status=status)
        with translation.override("pt-br"):
            answer = caller(
                "POST", f"/emails/{made}/resend", {"reason": "x"}, Accept_Language="pt-br"
            )
        assert (answer.status_code, answer.data["error"]["message"]) == (409, f"it is {status}")


def test_a_mebibyte_of_content_passes_and_no_more(caller: Caller, company: Company) -> None:
    whole = "<p>" + "x" * (1024 * 1024 - 7) + "</p>"
    assert (
        caller("POST", "/email/send", {"email": factories.request(html=whole)}).status_code == 202
    )
    answer = caller("POST", "/email/send", {"email": factories.request(html=whole + "x")})
    assert (answer.status_code, answer.data["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
    answer = caller("POST", "/email/send", {"email": factories.request(html="x" * 2_500_001)})
    assert (answer.status_code, answer.data["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert caller("POST", f"/emails/{company.pk}/resend", b" " * 1_100_000).status_code == 413


def test_a_batch_accepts_each_by_itself(caller: Caller, company: Company, sink: Sink) -> None:
    asked = {"emails": [factories.request(), factories.request(to="no address")]}
    answer = caller("POST", "/email/batches", asked)
    assert (answer.status_code, answer.data["accepted"], answer.data["refused"]) == (202, 1, 1)
    assert answer.data["items"][1]["code"] == "VALIDATION_ERROR"
    assert answer.data["items"][1]["field"] == "to" and "no address" not in str(answer.data)
    url = f"/email/batches/{answer.data['batchId']}"
    assert caller("GET", url).data["status"] == "PROCESSING"
    run_jobs()
    told = caller("GET", url).data
    numbers = ("accepted", "refused", "waiting", "sent", "failed", "expired")
    assert (told["status"], [told[name] for name in numbers]) == ("PARTIAL", [1, 1, 0, 1, 0, 0])
    other = factories.company("Other")
    assert Caller(name="o", tenants=[str(other.pk)])("GET", url).status_code == 404


def test_a_preview_has_nothing_that_acts(caller: Caller) -> None:
    html = "<p>a<script>x()</script><img src='https://x.test/p.gif'></p>"
    answer = caller("POST", "/email/preview", {"html": html})
    assert answer.status_code == 200 and "default-src 'none'" in answer.data["policy"]
    assert "script" not in answer.data["document"] and "x.test" not in answer.data["document"]


def test_the_suppression_list_is_kept(caller: Caller, company: Company) -> None:
    asked = {"email": "Ana@customers.test", "reason": "asked"}
    made = caller("POST", "/email/suppressions", asked)
    assert made.status_code == 201 and made.data["email"] == "a***@c***.test"
    refused = caller("POST", "/email/send", {"email": factories.request()})
    assert refused.status_code == 422
    other = factories.company("Other")
    stranger = Caller(name="o", tenants=[str(other.pk)])
    assert stranger("GET", "/email/suppressions").data["data"] == []
    lift = f"/email/suppressions/{made.data['id']}/lift"
    assert stranger("POST", lift, {"reason": "x"}).status_code == 404
    assert caller("POST", lift, {"reason": " "}).status_code == 422
    assert caller("POST", lift, {"reason": "sorted out"}).status_code == 204
    assert caller("GET", "/email/suppressions").data["data"] == []
    done = Audit.objects.filter(outcome="done", action__startswith="suppression").order_by("at")
    assert [row.action for row in done] == ["suppression.add", "suppression.lift"]


def test_emails_are_found(caller: Caller, company: Company) -> None:
    asked = factories.request(tags=["invoice"], externalId="order-1")
    asked["recipient"]["razaoSocial"] = "Acme Ltda"
    caller("POST", "/email/send", {"email": asked})
    for query, number in (
        ("tag=invoice", 1), ("tag=none", 0), ("externalId=order-1", 1), ("externalId=x", 0),
        ("recipientExternalId=CUST-1", 1), ("recipientExternalId=x", 0),
        ("dateTo=2000-01-01T00:00:00Z", 0), ("dateFrom=2000-01-01T00:00:00Z", 1),
        ("status=ENQUEUED", 1), ("status=SENT", 0), ("inDoubt=false", 1), ("inDoubt=true", 0),
        ("status=ENQUEUED&tag=invoice&dateFrom=2000-01-01T00:00:00Z", 1),
    ):  # fmt: skip
        assert len(caller("GET", f"/emails?{query}").data["data"]) == number, query
    for body, number in (
        ({"to": "Ana@customers.test"}, 1), ({"to": "bob@customers.test"}, 0),
        ({"cpfCnpj": factories.CPF}, 1), ({"cpfCnpj": factories.CNPJ}, 0),
        ({"to": "ana@customers.test", "tag": "invoice", "status": "ENQUEUED"}, 1),
        ({"to": "ana@customers.test", "tag": "none"}, 0),
        ({"nome": "ANA  souza"}, 1), ({"nome": "Ana"}, 0), ({"razaoSocial": "Acme LTDA"}, 1),
        ({"razaoSocial": "Acme Ltda", "to": "bob@customers.test"}, 0),
        ({"to": "ana@customers.test", "dateTo": "2000-01-01T00:00:00Z"}, 0),
    ):  # fmt: skip
        assert len(caller("POST", "/emails/search", body).data["data"]) == number, body


def test_emails_of_a_batch_are_listed_as_they_end(caller: Caller, sink: Sink) -> None:
    for _ in range(2):
        made = caller("POST", "/email/batches", {"emails": [factories.request()] * 2}).data
    late = caller("POST", "/email/send", {"email": factories.request(), "delay": 60_000}).data
    run_jobs()
    listed = caller("GET", f"/emails?batchId={made['batchId']}").data["data"]
    assert {row["batchId"] for row in listed} == {made["batchId"]} and len(listed) == 2
    ended = caller("GET", "/emails?sort=processedAt&limit=3")
    moments = [row["processedAt"] for row in ended.data["data"]]
    assert moments == sorted(moments, reverse=True) and len(moments) == 3
    assert all(row["messageId"] for row in ended.data["data"])
    rest = caller("GET", f"/emails?sort=processedAt&cursor={ended.data['page']['next']}").data
    assert len(rest["data"]) == 1
    assert late["outboxId"] not in str([ended.data, rest])


def test_an_email_expires_when_its_sender_says(caller: Caller, sink: Sink) -> None:
    asked = {"email": factories.request(), "delay": 1000, "ttl": 2000}
    made = caller("POST", "/email/send", asked).data
    with freeze_clock() as clock:
        clock.tick(3)
        run_jobs()
    assert caller("GET", f"/emails/{made['outboxId']}").data["status"] == "EXPIRED"
    for wrong in ({"ttl": 0}, {"ttl": 86_400_001}, {"ttl": 500, "delay": 500}):
        answer = caller("POST", "/email/send", {"email": factories.request(), **wrong})
        pointers = [one["pointer"] for one in answer.data["errors"]]
        assert (answer.status_code, len(pointers)) == (422, 1) and pointers[0][1:] in wrong


def test_nothing_is_accepted_that_no_provider_would_send(caller: Caller, settings: Any) -> None:
    settings.EMAILGW = {}
    answer = caller("POST", "/email/send", {"email": factories.request()})
    assert (answer.status_code, answer.data["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert "provider" in answer.data["detail"] and not OutboxEmail.objects.exists()


def test_without_a_server_emails_become_files(
    caller: Caller, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SMTP_URL", "SES_REGION", "EMAIL_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    settings.EMAILGW = environment.email("anymail", tmp_path)
    made = caller("POST", "/email/send", {"email": factories.request()}).data
    assert run_jobs().succeeded == 1
    assert caller("GET", f"/emails/{made['outboxId']}").data["status"] == "SENT"
    [file] = (tmp_path / "mail").iterdir()
    assert "To: ana@customers.test" in file.read_text()


def test_wrong_filters_are_named(caller: Caller) -> None:
    for query, name in (
        ("status=GONE", "status"), ("tag=a%20b", "tag"), ("dateFrom=2020-01-01", "dateFrom"),
        ("externalId=", "externalId"), ("sort=to", "sort"),
    ):  # fmt: skip
        answer = caller("GET", f"/emails?{query}")
        assert answer.status_code in (400, 422), query
        assert name in str(answer.data["errors"]), answer.data
    answer = caller("POST", "/emails/search", {"to": "ana@customers.test", "tags": "x"})
    assert answer.status_code == 422 and "ana@" not in answer.content.decode()


def test_a_status_is_looked_for_among_the_newest(
    caller: Caller, company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        caller("POST", "/email/send", {"email": factories.request(externalId=f"n{number}")})
    monkeypatch.setattr(queries, "SCAN", 2)
    assert len(caller("GET", "/emails?status=ENQUEUED").data["data"]) == 2
    oldest = OutboxEmail.objects.order_by("enqueued_at").first()
    assert oldest is not None
    found = caller("GET", "/emails?externalId=n0&status=ENQUEUED").data["data"]
    assert [one["id"] for one in found] == [str(oldest.pk)]


def test_a_key_of_a_tenant_that_is_no_company_sees_nothing(company: Company) -> None:
    stranger = Caller(name="stranger", tenants=["brand-1"])
    asked = {"email": factories.request()}
    assert stranger("POST", "/email/send", asked).status_code == 404
    assert stranger("POST", "/email/send", {**asked, "company": str(company.pk)}).status_code == 404
    assert stranger("GET", "/emails").data["data"] == []
    assert stranger("GET", "/email/suppressions").data["data"] == []

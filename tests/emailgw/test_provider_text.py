"""Providers that quote what they were sent: none of it is kept, and what they mean is."""

from __future__ import annotations

import base64
import html
import logging
import quopri
import re
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from email.header import Header
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

import jobs
from emailgw import feedback, services
from emailgw.clients import esp
from emailgw.errors import NotSent
from emailgw.models import Company, EmailEvent, OutboxEmail, Suppression
from emailgw.provider_text import KNOWN, known_words, provider_id
from jobs.models import Audit, Breaker
from jobs.operate.deadletters import discard_letter
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.emailgw import factories
from tests.emailgw.rude import Rude, rude
from tests.privacy.test_canary import redis, tables

LOCAL, DOMAIN = "zqlocal.zqcanary", "zqdomain.test"
ADDRESS = f"{LOCAL}@{DOMAIN}"
SUBJECT = "Zqsubject boleto de José da Canária Zqnome"
PERSONAL = [ADDRESS, LOCAL, DOMAIN, SUBJECT, "José da Canária", "Zqnome", "Zqheader-7781"]


@pytest.mark.parametrize(
    "reply",
    [
        "550 5.1.1 user unknown",
        "550 5.7.1 Service unavailable; client blocked using zen.spamhaus.org",
        "452 4.2.2 The email account that you tried to reach is over quota.",
        "421 4.7.0 Try again later, closing connection.",
        "451 4.7.1 greylisted, come back later",
        "454 4.7.1 Relay access denied",
        "552 5.3.4 Message size exceeds fixed maximum message size",
        "554 5.7.1 Message rejected as spam by content filtering",
        "535 5.7.8 Authentication credentials invalid",
        "530 5.7.0 Must issue a STARTTLS command first",
        "550 5.1.1 The email account does not exist: https://support.google.com/mail/",
        "550-5.1.1 The email account that you tried to reach does not exist.",
        "smtp; 550 5.1.1 user unknown",
        "smtp;550 5.1.1 user unknown",
        "550 Caixa postal cheia, usuário desconhecido",
        "550 Casella di posta piena: utente sconosciuto",
        "InvalidClientTokenId: The security token included in the request is invalid.",
        "Permanent: General",
        "Transient: MailboxFull",
        "503 ServiceUnavailableException",
        "SMTPServerDisconnected",
        "ConnectionRefusedError",
        "its recipients are not those that were validated",
        "it has unexpected headers",
        "the subject has more than one line",
        "an address is not valid",
        "a later attempt has the email",
        "the answer to the content cannot be read",
    ],
)
def test_what_every_server_says_is_kept(reply: str) -> None:
    assert known_words(reply) == reply


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (f"550 5.1.1 <{ADDRESS}>: user {LOCAL} unknown", "550 5.1.1 *** user *** unknown"),
        (f"550 mailbox of {LOCAL} at {DOMAIN} is full", "550 mailbox of *** at *** is full"),
        ("550 no 529.982.247-25 here", "550 no *** here"),
        ("550 quota of 52998224725 exceeded", "550 quota of *** exceeded"),
        ("smtp; smtp; 550 unknown", "smtp; smtp; *** unknown"),
        ("550 document 5.119.876 unknown", "550 document *** unknown"),
        ("550 call 451 or +55 11 98765-4321", "550 call *** or ***"),
        ("550 user=zqlocal;reason=unknown", "550 ***"),
        ("550 user\u200bzqlocal unknown", "550 *** unknown"),
        ("550 \uff55\uff53\uff45\uff52 unknown", "550 *** unknown"),
        ("550 5.1\u0663.1 unknown", "550 *** unknown"),
        ("550 \x1b[31mrejected", "550 ***"),
        ("", ""),
    ],
)
def test_everything_else_is_hidden(reply: str, shown: str) -> None:
    assert known_words(reply) == shown


@given(st.text())
def test_no_word_is_shown_that_is_not_known(text: str) -> None:
    shown = known_words(f"550 {text}")
    assert len(shown) <= 300
    for run in re.findall(r"[^\W\d_]+", shown.replace("'", "")):
        parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", run)
        is_camel_case = "".join(parts) == run and {part.lower() for part in parts} <= KNOWN
        assert run.lower() in KNOWN or is_camel_case
    for number in re.findall(r"\S*\d\S*", shown)[1:]:
        assert re.fullmatch(r"\W*[245]\.\d{1,3}\.\d{1,3}\W*", number, re.ASCII)


@pytest.mark.parametrize("name", ["Noé", "noé", "InÊs", "aÀÉÍ", "A÷À"])
def test_a_known_word_within_a_name_does_not_show_it(name: str) -> None:
    assert known_words(f"550 user {name} unknown") == "550 user *** unknown"


def test_names_of_people_are_no_words_of_servers() -> None:
    names = """ana antonio art bill carlos dean dias earl faith frank grace grant grazia guy hope
      jack jean josé jose júlia joy luz mark maria max may miles pat pedro ray reis rich rosa rose
      rossi ruby sales santos serra silva souza sue victor will"""
    assert not KNOWN & set(names.split())


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0100018f-abc-000000", True), ("<0100@email.amazonses.com>", True),
        (f"<{ADDRESS}>", False), (f"x-{LOCAL.upper()}-1", False), ("with blanks", False),
        ("", False), (None, False), ("x" * 301, False), ("\x00", False),
    ],
)  # fmt: skip
def test_the_id_of_a_provider_names_nobody(given: Any, kept: bool) -> None:
    assert provider_id(given, [ADDRESS, "bo@x.test"]) == (given if kept else "")


# ---- everywhere


def spellings(text: str) -> dict[str, str]:
    """The text as servers and their filters quote it."""
    raw = text.encode()
    local, _, domain = text.partition("@")
    return {
        "plain": text,
        "upper": text.upper(),
        "brackets": f"<{text}>",
        "at": f"{local} at {domain or DOMAIN}",
        "spaced": f"{local} @ {domain or DOMAIN}",
        "in words": f"{local} (at) {(domain or DOMAIN).replace('.', ' dot ')}",
        "verp": f"bounce-{text.replace('@', '=')}@relay.test",
        "srs": f"SRS0=Zqsrshash=TT={domain or DOMAIN}={local}@relay.test",
        "assigned": f"rcpt={text};",
        "url": urllib.parse.quote(text, safe=""),
        "entities": "".join(f"&#{ord(c)};" for c in text),
        "html": html.escape(text),
        "base64": base64.b64encode(raw).decode(),
        "base64 of lines": base64.b64encode(raw + b"\r\n").decode(),
        "base64 for urls": base64.urlsafe_b64encode(raw).decode().rstrip("="),
        "hex": raw.hex(),
        "quoted-printable": quopri.encodestring(raw, quotetabs=True).decode(),
        "rfc 2047 b": Header(text, "utf-8", maxlinelen=900).encode(),
        "rfc 2047 q": "=?utf-8?q?" + quopri.encodestring(raw, header=True).decode() + "?=",
        "escaped": text.encode("unicode_escape").decode(),
    }


FRAGMENTS = [
    *(quoted for text in (ADDRESS, SUBJECT) for quoted in spellings(text).values()),
    *PERSONAL,
    *(spellings(text)["base64"] for text in PERSONAL),
]
WORDS = re.compile("zq(?:local|canary|domain|subject|nome|header|srshash|code)|can[aá]ria|boleto")
REPLIES = [
    ("550 5.1.1 {} is unknown here", "RCPT"),
    ("451 4.7.1 spam: {}", "END"),
    ("554 5.7.1 {}", "DATA"),
]


def heard(text: str, where: str) -> None:
    flat = re.sub(r"\s+", " ", text.lower())
    assert not WORDS.findall(flat), where
    for fragment in FRAGMENTS:
        if len(fragment) > 8:
            assert fragment.lower() not in flat, f"{where}: {fragment}"


@pytest.fixture(scope="module")
def listening() -> Iterator[Rude]:
    with rude() as server:
        yield server


@pytest.fixture
def log() -> Iterator[StringIO]:
    stream = StringIO()
    handler, root = logging.StreamHandler(stream), logging.getLogger()
    before, root.level = root.level, logging.DEBUG
    root.addHandler(handler)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


def told(row: OutboxEmail, words: str, number: int) -> None:
    """A provider's event about the email, in these words."""
    event = SimpleNamespace(
        event_type=("bounced", "deferred", "complained", "rejected")[number % 4],
        metadata={"outbox_id": str(row.pk)}, esp_event={}, event_id=f"e{number}",
        recipient=ADDRESS, message_id=f"<{words}>", description=words, mta_response=words,
    )  # fmt: skip
    feedback.record_event(sender=None, event=event, esp_name="Amazon SES")


PAGES = [
    "emailgw/outboxemail/", "jobs/job/", "jobs/deadletter/", "jobs/overview/",
    "jobs/breaker/", "jobs/effect/", "jobs/audit/", "emailgw/suppression/", "jobs/outbox/",
]  # fmt: skip


@pytest.mark.django_db
def test_nothing_that_a_provider_quotes_is_kept_anywhere(
    company: Company, listening: Rude, settings: Any, admin_client: Client, log: StringIO,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    settings.EMAILGW = factories.providers(listening.port, BREAKER_THRESHOLD=1000)
    lines = [quoted.replace("\n", " ") for quoted in FRAGMENTS]
    rows = []
    for number in range(len(lines)):
        made = services.accept(
            company,
            factories.request(
                to=f"zq{number}.{LOCAL}@{DOMAIN}", subject=SUBJECT, externalId=f"order-{number}",
                headers={"X-Custom-A": PERSONAL[-1]},
                recipient={"externalId": f"C{number}", "nome": "José da Canária"},
            ),
            by="test",
        )  # fmt: skip
        rows.append(OutboxEmail.objects.get(pk=made.outbox_id))
    asked = {
        row.to: (line, *REPLIES[n % 3])
        for n, (row, line) in enumerate(zip(rows, lines, strict=True))
    }

    def answers(step: str, address: str) -> bytes | None:
        quoted, reply, at = asked.get(address, ("", "", ""))
        return f"{reply.format(quoted)}\r\n".encode() if step == at else None

    listening.answers = answers
    with freeze_clock() as clock:
        for _ in range(6):
            run_jobs()
            clock.tick(200)
        listening.answers = lambda step, address: (
            f"554 {ADDRESS} has no SMTP service here\r\n".encode() if step == "BANNER" else None
        )
        services.accept(company, factories.request(), by="test")
        run_jobs()
    for number, quoted in enumerate(lines):
        told(rows[number], f"Permanent: {quoted}", number)
        told(rows[number], f"Transient: {quoted}", number + 1000)
    statuses = {row.status for row in OutboxEmail.objects.all()}
    assert statuses == {"FAILED", "RETRY_SCHEDULED"}
    assert EmailEvent.objects.filter(detail__answer__startswith="Permanent: ***").exists()
    shown = set(OutboxEmail.objects.values_list("error_reason", flat=True))
    wanted = {"550 5.1.1 *** is unknown here", "451 4.7.1 spam: ***", "554 5.7.1 ***"}
    assert wanted <= shown, shown
    assert Breaker.objects.get(state="open").last_error.endswith("*** has no SMTP service here")

    heard(tables(), "the tables")
    heard(redis(), "Redis")
    heard(log.getvalue(), "the logs")
    heard(repr(emitted()), "the events")
    for command in (
        ["breakers", "list"],
        ["causes", "list"],
        ["explain", str(rows[0].pk)],
        ["doctor"],
    ):
        with suppress(SystemExit):
            call_command("jobs", *command)
    heard("".join(capsys.readouterr()), "the commands")
    ids = [f"emailgw/outboxemail/{row.pk}/change/" for row in rows[:3]]
    ids += [f"jobs/job/{row.pk}/change/" for row in rows[:3]]
    for path in (*PAGES, *ids):
        page = admin_client.get(f"/admin/{path}")
        assert page.status_code == 200, path
        heard(page.content.decode(), path)
    for path in ("emails", *(f"emails/{row.pk}" for row in rows[:3]), f"jobs/{rows[0].pk}"):
        answer = admin_client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, path
        heard(answer.content.decode(), path)
    heard(admin_client.get("/metrics").content.decode(), "the metrics")


def test_an_error_of_a_provider_shows_none_of_its_words() -> None:
    error = NotSent("SMTP_REJECTED", f"550 {ADDRESS} unknown")
    assert str(error) == "SMTP_REJECTED: 550 *** unknown"
    assert ADDRESS not in repr(error) + repr(error.args) + repr(vars(error))
    answer = SimpleNamespace(
        response={"Error": {"Code": "Zqcode", "Message": ADDRESS}, "ResponseMetadata": {}}
    )
    assert "zq" not in str(esp.classify(answer)).lower()


@pytest.mark.django_db
def test_people_name_nobody_in_what_is_kept_of_their_reasons(
    company: Company, listening: Rude, settings: Any, admin_client: Client
) -> None:
    settings.EMAILGW = factories.providers(listening.port)
    listening.answers = lambda step, address: b"550 no\r\n" if step == "RCPT" else None
    why = f"asked {ADDRESS} (529.982.247-25) by phone"
    rows = [services.accept(company, factories.request(), by="test").outbox_id for _ in range(3)]
    run_jobs()
    services.resend(rows[0], by="ann", reason=why)
    jobs.retry(rows[1], by="ann", reason=why)
    jobs.cancel(rows[1], by="ann", reason=why)
    discard_letter(jobs.types.DeadLetter.objects.get(job_id=rows[2]).pk, by="ann", reason=why)
    services.add_suppression(company.pk, ADDRESS, by="ann", reason=why)
    masked = "asked z***@z***.test (***.***.***-25) by phone"
    assert Suppression.objects.get().note == masked
    assert set(Audit.objects.exclude(reason="").values_list("reason", flat=True)) == {masked}
    text = tables()
    heard(text, "the tables")
    assert "529.982.247-25" not in text
    for path in PAGES:
        heard(admin_client.get(f"/admin/{path}").content.decode(), path)

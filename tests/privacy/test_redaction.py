"""Nothing that looks like a secret or like personal data leaves, in whatever shape it comes."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jobs import redaction
from jobs.fields import HIDDEN, RedactingFilter, declare, processor, redact, redact_text, scrubbing
from jobs.keyring import KeyRing, Place

CPF, CNPJ, CARD = "52998224725", "11222333000181", "4111111111111111"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mail to user@example.com now", "mail to u***@e***.com now"),
        ("<user.name+tag@mail.example.com.br>", "<u***@m***.br>"),
        ("cliente 529.982.247-25 novo", "cliente ***.***.***-25 novo"),
        (f"cliente {CPF} novo", "cliente *********25 novo"),
        ("empresa 11.222.333/0001-81", "empresa **.***.***/****-81"),
        (f"empresa {CNPJ}", "empresa ************81"),
        ("empresa 12.ABC.345/01DE-35", "empresa **.***.***/****-35"),
        ("empresa 12ABC34501DE35", "empresa ************35"),
        (f"card {CARD}", "card ***1111"),
        ("card 4111 1111 1111 1111.", "card ***1111."),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer ***"),
        ("sent Basic dXNlcjpwYXNz", "sent Basic ***"),
        ("postgres://me:hunter2@db/x", "postgres://***@db/x"),
        ("password=hunter2&x=1", "password=***&x=1"),
        ("{'api_key': 'k-123', 'x': 1}", "{'api_key': '***', 'x': 1}"),
        ('{"token": "t-123", "x": 1}', '{"token": "***", "x": 1}'),
        ("dbPassword = hunter2, rest", "dbPassword = ***, rest"),
        ("ValueError: password=hunter2", "ValueError: password=***"),
        ("KeyError: 'token: t-123'", "KeyError: 'token: ***'"),
        ("at https://x.example/?api_key=k-123&x=1", "at https://x.example/?api_key=***&x=1"),
        ("jwt eyJhbGciOi.eyJzdWIiOi.c2ln", "jwt ***"),
    ],
)
def test_patterns_are_masked_in_texts(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain words, 42 of them",
        "order 12345678900 is no valid CPF",
        "at 1763464332123 ms",
        "job 01938f2e-7c1a-7bbb-8000-5299822472ab",
        "11111111111",
        "card 4111111111111112 fails its sum",
        "token: None",
        "meet @noon or user@localhost",
        "key=unique-7 lane=a|b",
        "version 1.2.3, ratio 0.5, 2026-01-31T10:00:00+00:00",
    ],
)
def test_innocent_texts_stay_as_they_are(text: str) -> None:
    assert redact_text(text) == text


def test_a_sealed_value_is_no_text_to_show() -> None:
    sealed = KeyRing({"k": b"k" * 32}).seal(b"secret", Place("t", "c", "1"))
    assert redact_text(f"has {sealed} in it") == "has <sealed> in it"


@pytest.mark.parametrize(
    "name",
    ["password", "Authorization", "Set-Cookie", "X-API-Key", "accessToken", "DB_PASSWORD",
     "user.secret", "refresh-token", "HTTP_COOKIE", "apikey", "APIKey"],
)  # fmt: skip
def test_values_under_telling_names_are_hidden(name: str) -> None:
    assert redact({name: "hunter2"}) == {name: HIDDEN}
    assert redact({"deep": [{name: {"a": ["hunter2"]}}]}) == {"deep": [{name: HIDDEN}]}


@pytest.mark.parametrize(
    "name", ["author", "keyboard", "monkey", "passage", "subject", "tokenizer"]
)
def test_names_that_only_look_like_it_tell_nothing(name: str) -> None:
    assert redact({name: "x"}) == {name: "x"}


def test_documents_keep_their_shape_under_their_names() -> None:
    assert redact({"cpf": "12345678900", "cpf_cnpj": 12345678900, "cnpj": None}) == {
        "cpf": "*********00",
        "cpf_cnpj": "*********00",
        "cnpj": None,
    }


def test_more_names_can_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_names", dict(redaction._names))
    monkeypatch.setattr(redaction, "_mask_of", {})
    assert redact({"mother_name": "Ana"}) == {"mother_name": "Ana"}
    declare("motherName")
    assert redact({"mother_name": "Ana"}) == {"mother_name": HIDDEN}


@dataclass
class Login:
    user: str
    password: str


class Signup(BaseModel):
    email: str
    password: str


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError


def test_all_kinds_of_values_come_through() -> None:
    moment, key = datetime(2026, 1, 31, tzinfo=UTC), uuid.uuid4()
    assert redact(
        {
            "login": Login("user@example.com", "hunter2"),
            "model": Signup(email="user@example.com", password="hunter2"),
            "error": ValueError(f"no {CPF}"),
            "number": int(CPF),
            "plain": [1, 2.5, True, None, moment, key],
            "bytes": b"secret",
            "odd": Odd(),
            "user@example.com": 1,
        }
    ) == {
        "login": {"user": "u***@e***.com", "password": HIDDEN},
        "model": {"email": "u***@e***.com", "password": HIDDEN},
        "error": "ValueError: no *********25",
        "number": "*********25",
        "plain": [1, 2.5, True, None, moment, key],
        "bytes": "<6 bytes>",
        "odd": "<Odd>",
        "u***@e***.com": 1,
    }


def test_endless_data_ends() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    assert "…" in json.dumps(redact(loop), ensure_ascii=False)


def test_names_alone_can_be_asked_for() -> None:
    data = {"to": "user@example.com", "password": "x"}
    assert redact(data, patterns=False) == {"to": "user@example.com", "password": HIDDEN}


# ---- injection


@given(st.text())
def test_no_text_can_forge_a_line_or_a_colour(text: str) -> None:
    shown = redact_text(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown)
    shown.encode()
    kept = redact_text(text, multiline=True)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in kept)


def test_control_characters_are_shown() -> None:
    forged = "ok\r\n2026 ERROR root: \x1b[31mhacked\x00\x7f\u2028\u202e"
    assert redact_text(forged) == "ok␍␊2026 ERROR root: ␛[31mhacked␀␡\\u2028\\u202e"
    assert redact_text("two\nlines\tand \x1b", multiline=True) == "two\nlines\tand ␛"


@pytest.mark.parametrize("part", ["a", "a.", "1", "1 ", "a@", "x=", "=", "'", "1-", ":", "A1"])
def test_long_texts_take_no_long_time(part: str) -> None:
    begun = time.process_time()
    redact_text(part * 200_000)
    assert time.process_time() - begun < 5


# ---- the values of a job


def test_the_values_of_the_running_job_are_hidden_however_they_are_spelt() -> None:
    with scrubbing(["Maria d'Ávila", "987.654.321-00", "ab"]):
        for text in (
            "for Maria d'Ávila",
            "for MARIA D'ÁVILA",
            "for " + json.dumps("Maria d'Ávila"),
            "for Maria%20d%27%C3%81vila",
            "for Maria+d%27%C3%81vila",
            "for " + ascii("Maria d'Ávila"),
            "for 98765432100",
        ):
            shown = redact_text(text)
            assert "aria" not in shown.lower(), shown
            assert "987" not in shown
        assert redact_text("ab about ab.") == "*** about ***."
    assert "Maria" in redact_text("for Maria d'Ávila")


def test_blocks_inside_of_each_other_hide_the_values_of_both() -> None:
    with scrubbing(["outer-value"]):
        with scrubbing(["inner-value"]):
            assert redact_text("outer-value inner-value") == "*** ***"
        assert redact_text("outer-value inner-value") == "*** inner-value"


def test_a_stored_result_loses_the_values_in_keys_texts_and_numbers() -> None:
    data = {"hunter2": ["x hunter2 y", 4711, 1, True, None]}
    with scrubbing(["hunter2", "4711"]):
        assert json.loads(redaction.scrub_json(json.dumps(data))) == {
            HIDDEN: ["x *** y", HIDDEN, 1, True, None]
        }
    assert redaction.scrub_json('{"hunter2":1}') == '{"hunter2":1}'


@given(st.text(min_size=4, alphabet=st.characters(categories=["L", "N", "P", "Z"])))
def test_no_value_survives_in_a_text(value: str) -> None:
    with scrubbing([value]):
        shown = redact_text(f"<{value}> {value!r} {json.dumps(value)}")
    assert value not in shown.replace(HIDDEN, "") or value.strip() == ""


def test_letters_are_the_same_where_case_does_not_count() -> None:
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    cased = [c for c in letters if not c == c.lower() == c.upper() == c.casefold()]
    text = "".join(cased)
    assert len(cased) > 2000 and len(redaction._fold(text)) == len(text)
    for one in cased:
        for other in re.findall(re.escape(one), text, re.IGNORECASE):
            assert redaction._fold(f"\u00e9{one}") == redaction._fold(f"\u00e9{other}")


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("Hunter2", "it was hunter2!", "it was ***!"),
        ("hunter2", "IT WAS HUNTER2", "IT WAS ***"),
        ("Jo\u00e3o da Silva", "para joao da silva", "para joao da silva"),
        ("Jo\u00e3o da Silva", "para JO\u00c3O DA SILVA", "para ***"),
        ("Jo\u00e3o da Silva", "para Jo\\xe3o da Silva", "para ***"),
        ("me\u017f\u017fage", "a MESSAGE", "a ***"),
        ("message", "a ME\u017f\u017fAGE", "a ***"),
        ("\u212aelvin", "of kelvin", "of ***"),
        ("ab", "AB about", "*** about"),
    ],
)
def test_values_are_hidden_whatever_letters_they_have(value: str, text: str, shown: str) -> None:
    with scrubbing([value]):
        assert redact_text(text) == shown


# ---- logs


def test_the_processor_redacts_a_whole_event() -> None:
    event = processor(
        None,
        "info",
        {
            "event": "login of user@example.com\nfake",
            "password": "hunter2",
            "headers": {"Cookie": "a=b", "Accept": "*/*"},
            "exception": f"Traceback:\n  ValueError: {CPF}",
            "count": 3,
        },
    )
    assert event == {
        "event": "login of u***@e***.com␊fake",
        "password": HIDDEN,
        "headers": {"Cookie": HIDDEN, "Accept": "*/*"},
        "exception": "Traceback:\n  ValueError: *********25",
        "count": 3,
    }


def test_the_filter_redacts_messages_arguments_and_tracebacks() -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(RedactingFilter())
    logger = logging.Logger("redacted")
    logger.addHandler(handler)
    try:
        raise ValueError(f"inner {CPF}")
    except ValueError:
        logger.exception("user %s sent %s", "user@example.com", {"token": "t-1"})
    logger.info("broken %d", "user@example.com")
    told = stream.getvalue()
    assert "user u***@e***.com sent {'token': '***'}" in told
    assert "ValueError: inner *********25" in told
    assert "user@example.com" not in told
    assert CPF not in told

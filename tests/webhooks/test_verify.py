"""The receiver's side: whose signatures are taken, and how old they may be."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs import webhooks
from jobs.webhooks import BadSignature, sign, verify

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()
BODY = json.dumps({"timestamp": "2026-05-01T12:00:00.000+00:00", "eventType": "a"}).encode()


def test_a_signature_of_any_secret_in_use_is_taken() -> None:
    told = json.loads(BODY)
    assert verify(BODY, sign(BODY, "new"), ["old", "new"], now=NOW) == told
    assert verify(BODY, sign(BODY, "new", "old"), "old", now=NOW) == told
    assert verify(BODY, sign(BODY, "new", "old"), "new", now=NOW) == told


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "sha256=",
        sign(BODY, "other"),
        sign(BODY, "new")[7:],
        sign(BODY + b" ", "new"),
        "é",
    ],
)
def test_any_other_header_is_refused(header: str | None) -> None:
    with pytest.raises(BadSignature, match="none of ours"):
        verify(BODY, header, ["old", "new"], now=NOW)


@pytest.mark.parametrize("age", [301, -301])
def test_what_was_not_sent_just_now_is_refused(age: float) -> None:
    header = sign(BODY, "s")
    with pytest.raises(BadSignature, match="too long ago"):
        verify(BODY, header, "s", now=NOW + age)
    assert verify(BODY, header, "s", 302, now=NOW + age)
    assert verify(BODY, header, "s", None, now=NOW + 10**6)


@pytest.mark.parametrize(
    "body", [b"no json", b"[]", b"{}", b'{"timestamp": "2026-05-01T12:00:00"}']
)
def test_a_signed_body_that_is_no_delivery_is_refused(body: bytes) -> None:
    with pytest.raises(BadSignature, match="no delivery"):
        verify(body, sign(body, "s"), "s", now=NOW)


@pytest.mark.parametrize("secret", ["", [], ["a", ""], [None]])
def test_an_empty_secret_verifies_nothing(secret: Any) -> None:
    with pytest.raises(ValueError, match="verify: secret"):
        verify(BODY, sign(BODY, ""), secret, now=NOW)


def test_secrets_are_long_and_never_the_same() -> None:
    made = {webhooks.new_secret() for _ in range(100)}
    assert len(made) == 100 and min(map(len, made)) >= 40

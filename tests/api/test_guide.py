"""What docs/api.md shows happens so, word by word; its list of endpoints is that of the code."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.api import guide
from tests.api.conftest import Caller, call

pytestmark = pytest.mark.django_db


def test_every_endpoint_is_in_the_table() -> None:
    text = guide.FILE.read_text()
    assert guide.written(text) == text, "run `python -m tests.api.guide`"


def test_every_section_is_named() -> None:
    from jobs.api import SECTIONS

    named = set(re.findall(r"`([a-z-]+)`", guide.FILE.read_text()))
    assert set(SECTIONS) <= named


def test_the_conversations_go_like_this(root: Caller) -> None:
    """``<name>`` is whatever it is the first time, and the same from then on."""
    known: dict[str, str] = {}
    shown = list(guide.exchanges())
    assert len(shown) >= 12
    for one in shown:
        headers = {k.replace("-", "_"): _filled(v, known) for k, v in one.headers.items()}
        secret = f"Bearer {root.secret}"
        if "Authorization" in headers:
            assert headers["Authorization"] == "Bearer jd_live_…", "no key stands in a document"
            headers["Authorization"] = secret
        path = _filled(one.path.removeprefix("/api/v1"), known)
        answer = call(Client(), one.method, path, _filled(one.body, known), **headers)
        where = f"{one.method} {one.path}: {answer.content.decode()[:500]}"
        assert answer.status_code == one.status, where
        for name, value in one.answer.items():
            _check(answer[name], value, known, where)
        if one.data is not None:
            _check(answer.data, one.data, known, where)


def _filled(given: Any, known: dict[str, str]) -> Any:
    if isinstance(given, dict):
        return {name: _filled(value, known) for name, value in given.items()}
    if isinstance(given, list):
        return [_filled(value, known) for value in given]
    if isinstance(given, str):
        return re.sub(r"<(\w+)>", lambda found: known[found[1]], given)
    return given


def _check(found: Any, told: Any, known: dict[str, str], where: str) -> None:
    """What is told is so; what is not told may be anything."""
    if isinstance(told, dict):
        for name, value in told.items():
            assert name in found, f"{where}\nhas no {name}"
            _check(found[name], value, known, where)
    elif isinstance(told, list):
        assert len(found) == len(told), where
        for one, value in zip(found, told, strict=True):
            _check(one, value, known, where)
    elif isinstance(told, str) and (name := re.fullmatch(r"(.*)<(\w+)>", told)):
        assert str(found).startswith(name[1]), where
        value = str(found).removeprefix(name[1])
        assert known.setdefault(name[2], value) == value, where
    else:
        assert found == told, where

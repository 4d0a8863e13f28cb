"""``manage.py jobs web``: what it refuses to serve."""

from __future__ import annotations

from typing import Any

import pytest
import uvicorn
from django.core.management import CommandError, call_command


@pytest.mark.parametrize(
    ("address", "debug", "options", "is_served"),
    [
        ("127.0.0.1:9999", True, [], True),
        ("localhost:9999", True, [], True),
        ("[::1]:9999", True, [], True),
        ("0.0.0.0:9999", True, [], False),
        ("[::]:9999", True, [], False),
        ("desk.example.com:9999", True, [], False),
        ("0.0.0.0:9999", True, ["--allow-debug"], True),
        ("0.0.0.0:9999", False, [], True),
    ],
)
def test_error_pages_with_code_are_shown_to_this_machine_only(
    settings: Any, monkeypatch: pytest.MonkeyPatch, address: str, debug: bool,
    options: list[str], is_served: bool,
) -> None:  # fmt: skip
    settings.DEBUG = debug
    served: list[str] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, host, **_: served.append(host))
    monkeypatch.setattr("sys.setswitchinterval", lambda seconds: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    try:
        call_command("jobs", "web", address, *options)
    except (CommandError, SystemExit) as error:
        assert not is_served, error
    assert bool(served) is is_served

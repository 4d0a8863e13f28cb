"""The user that ``make run`` makes, and what it says once pages are served."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test.testcases import LiveServerThread

from config import local, welcome
from tests.wait import wait_until

pytestmark = pytest.mark.django_db


def test_a_user_is_made_once_and_its_password_said_again(tmp_path: Path) -> None:
    file = tmp_path / "admin-password"
    name, password = welcome.user(file)
    found = authenticate(username=name, password=password)
    assert isinstance(found, User) and found.is_superuser
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert welcome.user(file) == (name, password)
    assert User.objects.count() == 1


def test_a_password_that_was_changed_is_not_said(tmp_path: Path) -> None:
    file = tmp_path / "admin-password"
    name, _ = welcome.user(file)
    changed = User.objects.get()
    changed.set_password("another one")
    changed.save()
    assert welcome.user(file) == (name, "")
    assert "changepassword" in welcome.text("http://x", name, "")


def test_nobody_is_made_next_to_a_superuser(tmp_path: Path) -> None:
    User.objects.create_superuser("ada", password="hers")
    assert welcome.user(tmp_path / "admin-password") == ("ada", "")
    assert not (tmp_path / "admin-password").exists()


def test_the_addresses_are_said_when_the_server_answers(live_server: LiveServerThread) -> None:
    said: list[str] = []
    welcome.announce(str(live_server.url), "admin", "secret", said.append)  # type: ignore[attr-defined]
    wait_until(lambda: bool(said))
    [text] = said
    assert f"{live_server.url}/admin/" in text and "secret" in text  # type: ignore[attr-defined]


@pytest.mark.parametrize("port", ["abc", "0", "70000"])
def test_a_wrong_port_is_one_sentence(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["local", port])
    with pytest.raises(SystemExit, match="PORT must be a number between 1 and 65535"):
        local.main()


def test_a_port_in_use_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        monkeypatch.setattr("sys.argv", ["local", port])
        with pytest.raises(SystemExit, match=f"another program listens at 127.0.0.1:{port}"):
            local.main()

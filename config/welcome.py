"""What somebody who tries the project out needs first: a user, and where to look."""

from __future__ import annotations

import secrets
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

USER = "admin"
PATIENCE = 120.0


def user(file: Path) -> tuple[str, str]:
    """Return the name and password of a superuser who is made once; no password after a change.

    Nobody is made where there is a superuser already, whose name is returned.
    """
    from django.contrib.auth import get_user_model

    users = get_user_model()
    superusers = users._default_manager.filter(is_superuser=True, is_active=True)
    first = superusers.order_by("pk").first()
    if first is None:
        password = secrets.token_urlsafe(9)
        file.touch(mode=0o600)
        file.write_text(password)
        users._default_manager.create_superuser(**{users.USERNAME_FIELD: USER}, password=password)
        return USER, password
    if file.exists():
        password = file.read_text()
        for found in superusers:
            if found.get_username() == USER and found.check_password(password):
                return USER, password
    return first.get_username(), ""


def announce(url: str, name: str, password: str, say: Callable[[str], object]) -> None:
    """Say where to look once the server answers, from a thread that nobody waits for."""

    def wait() -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(OSError), urllib.request.urlopen(f"{url}/", timeout=5):  # noqa: S310
                say(text(url, name, password))
                return
            time.sleep(0.2)

    threading.Thread(target=wait, daemon=True, name="welcome").start()


def text(url: str, name: str, password: str) -> str:
    """Return the lines."""
    shown = password or "(yours; manage.py changepassword sets a new one)"
    return (
        f"\nAdmin:    {url}/admin/  (begin with Background jobs, Overview)\n"
        f"User:     {name}\nPassword: {shown}\n"
        f"Uploads:  {url}/uploads/\nAPI:      {url}/api/v1/docs\n"
        "Ctrl-C ends all of it.\n"
    )

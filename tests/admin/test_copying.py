"""What pages offer to copy works: the command is parsed, the address of the API is one."""

from __future__ import annotations

import html
import re
import shlex
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.management import load_command_class
from django.test import Client
from django.urls import resolve

from tests.admin.screens import screens
from tests.browser.filling import fill

pytestmark = pytest.mark.django_db
BOTH = {
    "jobs", "jobs-failed", "job-failed", "letters", "batches", "batch", "bulks", "queues", "queue",
    "workers", "worker", "schedules", "blackouts", "outbox", "audit", "keys",
}  # fmt: skip


def test_every_list_is_a_request_and_a_command(client: Client) -> None:
    ids = fill()
    client.force_login(User.objects.get(username="root"))
    parser = load_command_class("jobs", "jobs").create_parser("manage.py", "jobs")
    seen = set()
    for name, path in screens(ids).items():
        text = client.get(f"/admin/jobs/{path}").content.decode()
        copied = [html.unescape(t) for t in re.findall(r'data-jd-copy="([^"]*)"', text)]
        calls = [t for t in copied if t.startswith("GET ")]
        commands = [t for t in copied if t.startswith("python ")]
        for call in calls:
            url = urlsplit(call.removeprefix("GET "))
            assert resolve(url.path).url_name != "nothing_get", call
            answer = client.get(url.path, parse_qs(url.query))
            assert answer.status_code == 200, (call, answer.content)
        for command in commands:
            parser.parse_args(shlex.split(command)[3:])
        if calls and commands:
            seen.add(name)
    assert seen >= BOTH


def test_a_query_is_copied_word_for_word(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    asked = """-kind:"it's $HOME" error:Time*"""
    answer = client.get("/admin/jobs/job/", {"q": asked})
    found: dict[str, Any] = answer.context_data or {}
    words = shlex.split(found["cli"])
    assert words[:4] == ["python", "manage.py", "jobs", "list"] and words[-1] == asked
    assert parse_qs(urlsplit(found["api"]).query) == {"query": [asked]}

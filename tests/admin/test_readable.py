"""What pages say is said for people: rules, versions and changes in words, names that lead on."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation

from jobs.admin.audit import differences, in_line
from jobs.admin.crontext import in_words
from jobs.models import Breaker
from tests.admin.screens import screens


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", ""),
        ("15 * * * *", "every hour at minute 15"),
        ("0 */6 * * *", "every 6 hours"),
        ("0 */5 * * *", ""),
        ("30 2 * * *", "every day at 02:30"),
        ("30 2 1 * *", "on day 1 of the month at 02:30"),
        ("0 9 * * 1-5", "Monday to Friday at 09:00"),
        ("0 9 * * 0,6", "Sunday, Saturday at 09:00"),
        ("0 9 * * 7", "Sunday at 09:00"),
        ("0 9 1 * 1", ""),
        ("0 9 * 1 *", ""),
        ("0 9-17 * * *", ""),
        ("", ""),
    ],
)
def test_rules_of_the_usual_sort_are_said_in_words(rule: str, words: str) -> None:
    with translation.override("en"):
        assert in_words(rule) == words


def test_what_has_changed_is_told_value_by_value() -> None:
    detail = {"before": {"days": [4, 5], "enabled": True}, "after": {"days": [], "by": "ada"},
              "count": 3}  # fmt: skip
    with translation.override("en"):
        assert differences(detail) == {
            "changes": [
                {"name": "days", "before": "4, 5", "after": "—"},
                {"name": "enabled", "before": "yes", "after": "—"},
                {"name": "by", "before": "—", "after": "ada"},
            ],
            "notes": [("count", "3")],
        }
        assert in_line({"b": [1], "a": False}) == '{"a": false, "b": [1]}'
        assert differences(None) == {"changes": [], "notes": []}


@pytest.fixture
def root(ids: dict[str, Any], client: Client) -> Client:
    client.force_login(User.objects.get(username="root"))
    return client


def page(client: Client, path: str) -> str:
    answer = client.get(f"/admin/jobs/{path}")
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.django_db
def test_an_entry_of_the_audit_shows_the_fields_that_changed(
    root: Client, ids: dict[str, Any]
) -> None:
    text = page(root, screens(ids)["audit-change"])
    assert '<th scope="row" class="jd-mono">start</th>' in text
    assert ">23:00:00</td>" in text and ">22:00:00</td>" in text


@pytest.mark.django_db
def test_a_worker_that_tells_no_version_has_an_unknown_one(root: Client) -> None:
    assert "Workers run different versions: 2026.11.1, unknown" in page(root, "workerpage/")


@pytest.mark.django_db
def test_an_event_leads_to_what_it_is_about(root: Client, ids: dict[str, Any]) -> None:
    assert f"/admin/jobs/batch/{ids['batch_done']}/change/" in page(root, screens(ids)["event"])


@pytest.mark.django_db
def test_deliveries_are_listed_by_their_webhook_alone(root: Client, ids: dict[str, Any]) -> None:
    assert root.get("/admin/jobs/webhookdelivery/").headers["Location"] == "/admin/jobs/webhook/"
    assert '/admin/jobs/webhookdelivery/"' not in page(root, screens(ids)["delivery"])


@pytest.mark.django_db
def test_a_breaker_that_lets_everybody_call_is_not_closed_again(root: Client) -> None:
    Breaker.objects.create(name="well")
    assert "It is closed, with no failure counted." in page(root, "breaker/well/do/close/")
    assert "It is closed, with no failure counted." not in page(root, "breaker/meta/do/close/")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["schedule", "queue", "audit-change", "breaker"])
def test_no_page_is_a_form(root: Client, ids: dict[str, Any], path: str) -> None:
    assert root.post(f"/admin/jobs/{screens(ids)[path]}", {}).status_code == 403

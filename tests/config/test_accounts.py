"""Logging in without being a member of the staff, and what is shown then."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.redis import forget_counts

pytestmark = pytest.mark.django_db
ANN = {"username": "ann", "password": "lighthouse"}


@pytest.fixture
def ann() -> User:
    return User.objects.create_user(**ANN)


def test_a_user_logs_in_sees_what_is_offered_and_logs_out(ann: User) -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.get("/").headers["Location"] == "/accounts/login/?next=/"
    client.get("/accounts/login/")
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    wrong = client.post("/accounts/login/", {**ANN, "password": "wrong", **token})
    assert "enter a correct username" in wrong.content.decode()
    assert client.post("/accounts/login/", {**ANN, **token}).headers["Location"] == "/"
    shown = client.get("/").content.decode()
    assert "/uploads/" in shown and "Log out" in shown
    assert client.get("/uploads/").status_code == 200
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    assert client.post("/accounts/logout/", token).headers["Location"] == "/accounts/login/"
    assert client.get("/").status_code == 302


def test_the_login_leads_back_to_where_it_was_needed_and_nowhere_else(ann: User) -> None:
    client = Client()
    path = client.get("/uploads/").headers["Location"]
    assert path == "/accounts/login/?next=/uploads/"
    assert client.post(path, {**ANN, "next": "/uploads/"}).headers["Location"] == "/uploads/"
    elsewhere = {**ANN, "next": "https://example.com/"}
    assert Client().post("/accounts/login/", elsewhere).headers["Location"] == "/"


def test_the_staff_come_to_the_admin(ann: User) -> None:
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(ann)
    assert client.get("/").headers["Location"] == "/admin/"


@pytest.mark.parametrize("page", ["/accounts/login/", "/admin/login/"])
def test_passwords_cannot_be_guessed(ann: User, settings: Any, page: str) -> None:
    """Even the right one is refused after too many wrong ones, elsewhere it is not."""
    User.objects.update(is_staff=True)
    settings.JOBS = {**settings.JOBS, "API_RATES": {"refused": "3/d"}}
    forget_counts()
    try:
        for _ in range(3):
            wrong = Client().post(page, {**ANN, "password": "wrong"}).content.decode()
            assert "Too many failed logins" not in wrong and "enter" in wrong
        assert "Too many failed logins" in Client().post(page, ANN).content.decode()
        assert Client(REMOTE_ADDR="203.0.113.9").post(page, ANN).status_code == 302
    finally:
        forget_counts()


def test_browsers_find_an_icon() -> None:
    assert Client().get("/favicon.ico").headers["Location"].endswith("jobs/icon.svg")

"""Answers that are kept do not stay for ever."""

from __future__ import annotations

import hashlib

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from jobs import keyring
from jobs.api import idempotency
from jobs.engine import retention
from jobs.models import Answer
from jobs.principals import Principal, Scope
from tests.api.conftest import Caller
from tests.jobs import factories


@pytest.mark.django_db
def test_kept_answers_go_after_a_day() -> None:
    root = Caller()
    for key in ("old", "new"):
        root("POST", "/batches", {}, Idempotency_Key=key)
    factories.sql(
        "UPDATE jobs_api_answer SET created_at = created_at - interval '25 h' WHERE key = 'old'"
    )
    for _ in retention.sweep():
        pass
    assert list(Answer.objects.values_list("key", flat=True)) == ["new"]


@pytest.mark.django_db
def test_what_a_preview_returns_is_not_kept(root: Caller) -> None:
    body = {"html": "<p>CPF 529.982.247-25</p>"}
    for _ in range(2):
        answer = root("POST", "/email/preview", body, Idempotency_Key="again")
        assert answer.status_code == 200 and "Idempotent-Replayed" not in answer
    assert root("POST", "/email/preview", body, Idempotency_Key="\xe9").status_code == 400
    assert not Answer.objects.exists()


@pytest.mark.django_db
def test_no_body_can_be_guessed_from_what_is_kept(root: Caller) -> None:
    root("POST", "/batches", {"name": "529.982.247-25"}, Idempotency_Key="once")
    plain = hashlib.sha256(b'application/json\0{"name": "529.982.247-25"}').hexdigest()
    assert keyring.index_key()
    assert Answer.objects.get().fingerprint != plain


@pytest.mark.django_db
def test_callers_of_one_name_do_not_share_their_keys(root: Caller, rf: RequestFactory) -> None:
    """A login of the host's own may call all of them the same."""
    for tenant in ("one", "two"):
        who = Principal("storefront", "api", scope=Scope(tenants=frozenset({tenant})))
        request = rf.post("/jobs", headers={"Idempotency-Key": "k"})
        found = idempotency.begin(request, who.identity)
        assert isinstance(found, idempotency.Ticket), tenant
        found.keep(HttpResponse(tenant))

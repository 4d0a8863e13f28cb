"""A key or a user of another brand: nothing of this one exists, in no operation, page or event."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.testing import run_jobs
from jobs.verbs import every
from publisher import plan_verbs, plans, services, template_verbs
from publisher.models import Account, Asset, Brand, Consent
from tests.api.conftest import Caller
from tests.publisher import factories
from tests.publisher.test_plans import relay

pytestmark = pytest.mark.django_db
DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
PREFIX = "/api/v1/publisher"
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    if path.startswith(f"{PREFIX}/")
    for method, operation in methods.items()
]
VALUES: dict[str, Any] = {
    "brand": "acme", "title": "Mine", "name": "mine", "size": 9, "content_type": "image/png",
    "url": "https://acme.test/a.png", "content": {"caption": "x"}, "channels": ["meta_facebook"],
    "channel": "meta_facebook", "payload": {"caption": "x"}, "reason": "a test", "body": "Hello",
    "at": "2031-05-01T10:00:00+00:00", "outcome": "appeared", "token": "t", "note": "x",
    "remote_account": "1", "user": "narrow", "role": "manager", "times_of_day": "09:00",
    "start": "10:00", "end": "11:00", "window": 1, "alt_text": "x", "status": "ready",
    "decision": "approved", "slug": "acme", "caption": "x", "kind": "image",
    "account": "1",
}  # fmt: skip
"""What operations ask for, by name."""


@pytest.fixture
def ids(accounts: dict[str, Account], brand: Brand) -> dict[str, Any]:
    """Something of every kind that the brand has, by what paths call it."""
    account = accounts["meta_facebook"]
    place = plans.Place("meta_facebook", "2031-05-01T10:00")
    plan = plan_verbs.create_with("acme", "Secret plan", {"caption": "Secret"}, [place], by="ada")
    template = template_verbs.create_with("acme", "Secret template", {"caption": "x"}, by="ada")
    asset = Asset.objects.create(
        brand=brand, tenant=brand.tenant, name="secret.png", size=1, is_ready=True, kind="image",
        content_type="image/png", created_by="ada",
    )  # fmt: skip
    post = services.enqueue(account, factories.post("meta_facebook", "Secret post")).row
    run_jobs(["publisher"])
    relay()
    services.create_brand("other", "Other")
    found = [{"id": "1", "name": "Secret page", "token": "t"}]
    consent = Consent.objects.create(
        brand=brand, tenant=brand.tenant, channel="meta_facebook", state="s", session="s",
        user=User.objects.create_user("consenting"), secrets={"accounts": found},
    )  # fmt: skip
    return {
        "job_id": post.pk, "publication_id": post.pk, "account_id": account.pk,
        "brand_id": brand.pk, "plan_id": plan.pk, "slot_id": plan.slots.get().pk,
        "asset_id": asset.pk, "template_id": template.pk, "consent_id": consent.pk,
    }  # fmt: skip


def body_of(operation: Any) -> Any:
    """A body that the operation takes."""
    asked = operation.get("requestBody")
    if asked is None:
        return None
    schema = asked["content"]["application/json"]["schema"]
    for one in schema.get("anyOf", [schema]):
        if "$ref" in one:
            schema = DOCUMENT["components"]["schemas"][one["$ref"].rpartition("/")[2]]
    return {name: VALUES[name] for name in schema.get("required", [])}


def test_a_strangers_key_meets_404_in_every_operation(ids: dict[str, Any]) -> None:
    stranger = Caller(tenants=["brand:other"])
    met = 0
    for method, path, operation in OPERATIONS:
        if "{" not in path:
            continue
        where = re.sub(r"\{(\w+)\}", lambda m: str(ids[m[1]]), path).removeprefix("/api/v1")
        answer = stranger(method, where, body_of(operation))
        assert answer.status_code == 404, (method, path, answer.content)
        assert "Secret" not in answer.content.decode()
        met += 1
    assert met > 30


@pytest.mark.parametrize(
    "path", ["plans", "assets/uploads", "assets/fetch", "templates", "preflight"]
)
def test_a_strangers_key_makes_nothing_for_another_brand(path: str, ids: dict[str, Any]) -> None:
    [operation] = [o for m, p, o in OPERATIONS if (m, p) == ("POST", f"{PREFIX}/{path}")]
    answer = Caller(tenants=["brand:other"])("POST", f"/publisher/{path}", body_of(operation))
    assert answer.status_code == 404, answer.content


def test_a_strangers_lists_and_events_show_nothing(ids: dict[str, Any]) -> None:
    stranger, own = Caller(tenants=["brand:other"]), Caller(name="own", tenants=["brand:acme"])
    lists = [p.removeprefix("/api/v1") for m, p, _ in OPERATIONS if m == "GET" and "{" not in p]
    assert len(lists) >= 8
    for path in [*lists, "/events"]:
        text = stranger("GET", path).content.decode()
        assert not [name for name, pk in ids.items() if str(pk) in text], path
    seen = own("GET", "/events").content.decode()
    assert str(ids["publication_id"]) in seen  # there is something to see


def test_a_strangers_pages_do_not_exist(ids: dict[str, Any], settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "SCOPE": "tests.publisher.test_admin.scope_of_another"}
    client = Client()
    client.force_login(User.objects.create_superuser("narrow"))
    tried = 0
    for verb in every().values():
        noun, _, act = verb.name.partition(".")
        if f"{noun}_id" not in ids or verb.is_new:
            continue
        row = f"/admin/publisher/{noun}/{ids[f'{noun}_id']}"
        for path in (f"{row}/change/", f"{row}/do/{act.replace('_', '-')}/"):
            answer = client.get(path)
            assert answer.status_code == 404, path
            assert client.post(path, VALUES).status_code in (403, 404, 405), path
        tried += 1
    assert tried > 20
    for noun in ("publication", "account", "brand", "plan", "slot", "asset", "template"):
        text = client.get(f"/admin/publisher/{noun}/").content.decode()
        assert str(ids[f"{noun}_id"]) not in text and "Secret" not in text, noun

"""Brands for programs: what they are, and what is returned when they change."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from publisher.models import Account, Brand
from tests.api.conftest import Caller

pytestmark = pytest.mark.django_db
BRANDS = "/publisher/brands"


def test_a_program_sets_a_brand_up(db: None) -> None:
    caller = Caller()
    User.objects.create_user("ada")
    given = {"slug": "acme", "name": "Acme", "time_zone": "Europe/Rome", "reason": "new"}
    made = caller("POST", BRANDS, given)
    assert made.status_code == 201, made.content
    path = f"{BRANDS}/{made.data['id']}"

    def change(verb: str, **fields: Any) -> Any:
        answer = caller("POST", f"{path}/{verb}", {"reason": "new", **fields})
        assert answer.status_code in (200, 201), answer.content
        return answer.data

    change("set-times", times_of_day="09:00, mon-fri 18:30")
    change("add-window", start="22:00", end="06:00", days="fri")
    brand = change("set-member", user="ada", role="editor")
    assert brand == caller("GET", path).data
    assert caller("GET", BRANDS).data["data"] == [brand]
    [window] = brand.pop("windows")
    assert window == {
        "id": window["id"], "start": "22:00", "end": "06:00", "timezone": "Europe/Rome",
        "days": [5],
    }  # fmt: skip
    assert brand == {
        "id": made.data["id"], "slug": "acme", "name": "Acme", "time_zone": "Europe/Rome",
        "posting_times": "09:00, mon tue wed thu fri 18:30",
        "created_at": made.data["created_at"],
        "members": [{"user": "ada", "role": "editor"}],
    }  # fmt: skip
    assert change("remove-window", window=window["id"])["windows"] == []
    assert change("remove-member", user="ada")["members"] == []
    account = change(
        "connect", channel="meta_facebook", name="Page", remote_account="1", token="secret-token"
    )
    assert account == caller("GET", "/publisher/accounts").data["data"][0]
    assert "secret-token" not in str(account)
    assert Account.objects.get().token == "secret-token"


def test_another_brand_is_unknown(brand: Brand) -> None:
    other = Caller(tenants=["brand:other"])
    assert other("GET", BRANDS).data["data"] == []
    answer = other("GET", f"{BRANDS}/{brand.pk}")
    assert (answer.status_code, answer.data["code"]) == (404, "not-found")

"""Preflight: what each channel would refuse, and what may look wrong there."""

from __future__ import annotations

from typing import Any

import pytest

from publisher.models import Account, Asset, Brand, Plan
from tests.api.conftest import Caller

pytestmark = pytest.mark.django_db
PATH = "/publisher/preflight"


@pytest.fixture
def caller(accounts: dict[str, Account]) -> Caller:
    return Caller(tenants=["brand:acme"])


def seen(caller: Caller, content: Any, *channels: str) -> dict[str, Any]:
    answer = caller("POST", PATH, {"brand": "acme", "content": content, "channels": channels})
    assert answer.status_code == 200, answer.content
    assert answer.data["blocked"] == any(one["blocked"] for one in answer.data["channels"])
    assert not Plan.objects.exists()
    return {one["channel"]: one for one in answer.data["channels"]}


def test_a_good_post_has_the_whole_score_and_a_preview(caller: Caller) -> None:
    [found] = seen(caller, {"caption": "Hello"}, "meta_facebook").values()
    assert (found["score"], found["blocked"], found["checks"]) == (100, False, [])
    assert (found["length"], found["limit"], found["preview"]["message"]) == (5, 63206, "Hello")


def test_each_channel_has_its_own_failures(caller: Caller) -> None:
    found = seen(caller, {"caption": "x" * 1501}, "google_business", "wordpress_blog", "tiktok")
    assert [one["pointer"] for one in found["google_business"]["checks"]] == ["/content/caption"]
    assert (found["google_business"]["score"], found["google_business"]["preview"]) == (75, {})
    assert [one["pointer"] for one in found["wordpress_blog"]["checks"]] == ["/content/title"]
    assert [one["pointer"] for one in found["tiktok"]["checks"]] == ["/content/media"]


@pytest.mark.parametrize(
    ("channel", "length"), [("tiktok", 2), ("youtube", 4), ("meta_facebook", 1)]
)
def test_texts_are_counted_as_the_channel_counts(channel: str, length: int, caller: Caller) -> None:
    assert seen(caller, {"caption": "🍞"}, channel)[channel]["length"] == length


def test_warnings_do_not_block(caller: Caller, brand: Brand, settings: Any, tmp_path: Any) -> None:
    settings.JOBS = {**settings.JOBS, "BLOBS": {"STORE": "local", "ROOT": str(tmp_path)}}
    settings.PUBLISHER = {**settings.PUBLISHER, "PUBLIC_URL": "https://posts.acme.test"}
    wide = Asset.objects.create(
        brand=brand, tenant=brand.tenant, name="wide.jpg", size=9, kind="image", is_ready=True,
        content_type="image/jpeg", width=300, height=100, created_by="ada",
    )  # fmt: skip
    content = {
        "caption": "x" * 1761,
        "link": "https://acme.test/",
        "media": [{"asset": str(wide.pk)}],
    }
    [found] = seen(caller, content, "meta_instagram").values()
    assert [(one["level"], one["pointer"]) for one in found["checks"]] == [
        ("warning", "/content/link"), ("warning", "/content/caption"),
        ("warning", "/content/media/0/alt_text"), ("warning", "/content/media/0"),
    ]  # fmt: skip
    assert "3.00" in found["checks"][-1]["message"]
    assert (found["score"], found["blocked"]) == (60, False)


def test_bad_input_is_named(caller: Caller) -> None:
    for body, status in (
        ({"brand": "acme", "content": {"x": 1}, "channels": ["tiktok"]}, 422),
        ({"brand": "acme", "content": {}, "channels": ["myspace"]}, 400),
        ({"brand": "acme", "content": {}, "channels": []}, 422),
        ({"brand": "other", "content": {}, "channels": ["tiktok"]}, 404),
    ):
        assert caller("POST", PATH, body).status_code == status, body

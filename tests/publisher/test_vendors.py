"""Requests are such as the vendors' own tables allow, whatever a post consists of."""

from __future__ import annotations

from typing import Any

import pytest

from config.standins.publisher import Standin
from config.standins.publisher.server import Request
from publisher import services
from publisher.models import Account
from tests.publisher import factories, vendors
from tests.publisher.test_publishing import run_for

TABLES = vendors.read()
IMAGE = {**factories.IMAGE, "alt_text": "Bread"}
POSTS: list[tuple[str, dict[str, Any]]] = [
    ("meta_facebook", {}), ("meta_facebook", {"link": "https://acme.test/"}),
    ("meta_facebook", {"media": [IMAGE]}), ("meta_facebook", {"media": [factories.VIDEO]}),
    ("meta_instagram", {"media": [IMAGE], "ig_first_comment": "Order today"}),
    ("meta_instagram", {"media": [factories.VIDEO]}),
    ("meta_instagram", {"media": [IMAGE, factories.VIDEO, IMAGE]}),
    ("meta_instagram_stories", {"caption": "", "media": [IMAGE]}),
    ("meta_instagram_stories", {"caption": "", "media": [factories.VIDEO]}),
    ("youtube", {}), ("youtube", {"privacy": "unlisted"}),
]  # fmt: skip
NOT_FIELDS = {"access_token"}


@pytest.fixture
def seen(standin: Standin) -> list[Request]:
    """Every request that the stand-in gets."""
    found: list[Request] = []

    def note(request: Request) -> str:
        found.append(request)
        return ""

    standin.script = note
    return found


@pytest.mark.django_db
@pytest.mark.parametrize(("channel", "fields"), POSTS)
def test_a_request_has_only_what_its_vendor_knows(
    channel: str, fields: dict[str, Any], accounts: dict[str, Account], seen: list[Request]
) -> None:
    row = services.enqueue(accounts[channel], factories.post(channel, **fields)).row
    run_for(120)
    row.refresh_from_db()
    assert row.status == "completed", row.error
    writes = [one for one in seen if one.method == "POST" and one.service in ("graph", "youtube")]
    assert writes
    for request in writes:
        if request.service == "youtube":
            _is_video(request)
        else:
            _is_of_meta(request)


def _is_of_meta(request: Request) -> None:
    edge = request.path.rpartition("/")[2]
    known = TABLES["meta"][edge]
    sent = {**request.query, **request.body}
    assert set(sent) - NOT_FIELDS <= set(known), (edge, sent)
    for name, value in sent.items():
        if known.get(name) == "bool":
            assert value in ("true", "false"), (edge, name, value)
        elif str(known.get(name)).startswith("list<string"):
            assert value.replace(",", "").isdigit(), (edge, name, value)


def _is_video(request: Request) -> None:
    about = TABLES["youtube"]
    assert f"/{request.path}" in (about["path"], about["path"].removeprefix("/resumable"))
    assert set(request.query) - {"uploadType"} <= set(about["parameters"])
    video, fields = request.body, about["fields"]
    assert set(video) == set(request.query["part"].split(",")) <= set(fields["Video"])
    assert set(video["snippet"]) <= set(fields["VideoSnippet"])
    assert set(video["status"]) <= set(fields["VideoStatus"])
    assert video["status"]["privacyStatus"] in fields["VideoStatus"]["privacyStatus"]


def test_the_tables_are_those_of_the_sdks() -> None:
    assert TABLES["versions"] == [
        "facebook_business-26.0.3", "google_api_python_client-2.202.0",
    ]  # fmt: skip
    assert set(TABLES["meta"]) == set(vendors.EDGES)
    assert TABLES["meta"]["media"]["thumb_offset"] == "string"
    assert "notifySubscribers" not in TABLES["youtube"]["fields"]["VideoStatus"]
    assert "notifySubscribers" in TABLES["youtube"]["parameters"]

"""LinkedIn, X, Mastodon and Bluesky: media, doubts, refusals, and the limits of their servers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from config.standins.publisher import Standin
from config.standins.publisher.server import Request
from publisher import clock, counters, drafts, preflight, services, verbs
from publisher.connectors import bluesky, client, linkedin, mastodon, x
from publisher.errors import Refused
from publisher.models import Account, Brand
from tests.publisher import factories
from tests.publisher.pictures import picture
from tests.publisher.test_codes import action_of
from tests.publisher.test_publishing import publish, run_for

FOUR = ("linkedin", "x", "mastodon", "bluesky")
pytestmark = pytest.mark.django_db


@pytest.fixture
def images(standin: Standin) -> Iterator[str]:
    """A web server with an image, a page, and an image that is too large for anybody."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {
                "/a.jpg": ("image/jpeg", picture()), "/page.jpg": ("text/html", b"<html>"),
                "/large.jpg": ("image/jpeg", bytes(17_000_000)),
            }.get(self.path)  # fmt: skip
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", found[0] if found else "text/plain")
            self.end_headers()
            self.wfile.write(found[1] if found else b"")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def shown(channel: str, standin: Standin) -> list[Any]:
    """The media of the only post, as the service keeps them."""
    [post] = standin.posts[channel]
    if channel == "linkedin":
        return list(post["content"]["multiImage"]["images"])
    return list(post["embed"]["images"] if channel == "bluesky" else post["media"])


@pytest.mark.parametrize("channel", FOUR)
def test_images_are_uploaded_with_their_descriptions(
    channel: str, accounts: dict[str, Account], standin: Standin, images: str
) -> None:
    media = [{"url": f"{images}/a.jpg", "alt_text": f"Bread {n}"} for n in range(2)]
    row = publish(accounts[channel], 60, media=media)
    assert (row.status, row.attempts) == ("completed", 1), row.error
    assert len(shown(channel, standin)) == 2
    if channel == "linkedin":
        assert [one["altText"] for one in shown(channel, standin)] == ["Bread 0", "Bread 1"]
    if channel == "bluesky":
        assert [one["alt"] for one in shown(channel, standin)] == ["Bread 0", "Bread 1"]
        assert shown(channel, standin)[0]["image"]["size"] == len(picture())


@pytest.mark.parametrize("channel", ["x", "mastodon"])
def test_a_video_is_uploaded_and_awaited(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    row = publish(accounts[channel], 60, media=[factories.video(x.PART * 2 + 5)])
    assert (row.status, row.attempts) == ("completed", 1), row.error
    [media] = shown(channel, standin)
    appended = sum(path.endswith("/append") for _, path in standin.calls)
    assert (media in standin.containers, appended) == (True, 3 if channel == "x" else 0)


@pytest.mark.parametrize("channel", FOUR)
@pytest.mark.parametrize("name", ["page.jpg", "large.jpg", "gone.jpg"])
def test_what_is_no_image_fails_before_anything_appears(
    channel: str, name: str, accounts: dict[str, Account], standin: Standin, images: str
) -> None:
    row = publish(accounts[channel], 60, media=[{"url": f"{images}/{name}"}])
    assert (row.status, row.reason) == ("failed", "permanent")
    assert "image" in row.error and not standin.posts[channel]


@pytest.mark.parametrize("channel", FOUR)
def test_media_are_uploaded_once_however_often_the_post_is_tried(
    channel: str, accounts: dict[str, Account], standin: Standin, images: str
) -> None:
    path = {"linkedin": "rest/posts", "x": "2/tweets", "mastodon": "api/v1/statuses"}
    standin.misbehave(path.get(channel, "xrpc/com.atproto.repo.createRecord"), "500", "drop")
    row = publish(accounts[channel], 900, media=[{"url": f"{images}/a.jpg"}])
    assert row.status == "completed", row.error
    assert len(standin.posts[channel]) == 1
    uploads = ("initializeUpload", "images", "initialize", "v2/media", "uploadBlob")
    posts = [path for method, path in standin.calls if method == "POST" and path.endswith(uploads)]
    assert len(posts) == 1


def test_a_member_of_linkedin_is_asked_as_linkedin_does_not_show_the_post(
    accounts: dict[str, Account], standin: Standin
) -> None:
    Account.objects.filter(channel="linkedin").update(remote_account="urn:li:person:7")
    account = Account.objects.get(channel="linkedin")
    standin.misbehave("POST /rest/posts", "drop")
    row = publish(account, 600)
    assert (row.status, row.reason) == ("failed", "in_doubt")
    [post] = standin.posts["linkedin"]
    # Somebody publishes it again by mistake: LinkedIn names the post that is there.
    verbs.settle(row.pk, "publish_again", by="tests", reason="not seen")
    run_for(300)
    row.refresh_from_db()
    assert (row.status, row.remote_id) == ("completed", post["id"])
    assert len(standin.posts["linkedin"]) == 1


@pytest.mark.parametrize("channel", ["linkedin", "x"])
def test_a_duplicate_of_somebody_else_fails(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    assert publish(accounts[channel]).status == "completed"
    row = publish(accounts[channel], 300)
    assert (row.status, row.reason) == ("failed", "permanent")
    assert len(standin.posts[channel]) == 1


@pytest.mark.parametrize("channel", ["x", "mastodon"])
def test_a_text_with_links_and_special_characters_is_found_again(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    path = "POST /2/tweets" if channel == "x" else "POST /api/v1/statuses"
    standin.misbehave(path, "drop")
    text = 'Bread & <butter>\n\n"daily" https://acme.test/a?b=1&c=2'
    row = publish(accounts[channel], 600, text=text, link="https://acme.test/menu")
    assert (row.status, row.doubted, len(standin.posts[channel])) == ("completed", True, 1)
    assert row.remote_id == standin.posts[channel][0]["id"]


def test_a_server_with_a_lower_limit_is_sent_nothing(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.longest = 100
    row = publish(accounts["mastodon"], text="x" * 101)
    assert (row.status, row.error) == ("failed", "the server takes 100 characters")
    assert publish(accounts["mastodon"], text="x" * 100).status == "completed"


def test_a_repeated_call_to_mastodon_has_the_same_key(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """The post has appeared, and the list of posts does not show it yet."""
    keys = []

    def hide(request: Request) -> str:
        if request.path == "api/v1/statuses":
            keys.append(request.headers["Idempotency-Key"])
        return "drop" if len(keys) == 1 and request.path == "api/v1/statuses" else ""

    standin.script = hide
    standin.refuse("api/v1/accounts/1/statuses", 200, [])
    row = publish(accounts["mastodon"], 60)
    standin.refuse("api/v1/accounts/1/statuses", 200, [])
    run_for(600)
    row.refresh_from_db()
    assert row.status == "completed" and len(set(keys)) == 1 and len(keys) == 2
    assert len(standin.posts["mastodon"]) == 1


def test_a_version_that_linkedin_has_retired_holds_all_posts(
    accounts: dict[str, Account], standin: Standin
) -> None:
    body = {"status": 426, "code": "NONEXISTENT_VERSION"}
    standin.refuse("rest/posts", 426, body)
    row = publish(accounts["linkedin"], 60)
    assert (row.status, row.error) == ("pending", "linkedin NONEXISTENT_VERSION")
    run_for(600)
    row.refresh_from_db()
    assert (row.status, row.attempts) == ("completed", 1)


@pytest.mark.parametrize(
    ("judge", "status", "body", "action"),
    [
        (linkedin.judge, 401, {"code": "REVOKED_ACCESS_TOKEN"}, "token"),
        (linkedin.judge, 403, {"code": "ACCESS_DENIED"}, "permanent"),
        (linkedin.judge, 409, {}, "retry"),
        (linkedin.judge, 422, {"code": "DUPLICATE_POST"}, "already"),
        (linkedin.judge, 422, {"message": "Content is a duplicate of urn:li:share:7"}, "already"),
        (linkedin.judge, 422, {"code": "INVALID"}, "permanent"),
        (linkedin.judge, 426, {}, "later"),
        (x.judge, 401, {"title": "Unauthorized"}, "token"),
        (x.judge, 403, {"detail": "You are not allowed to create a Tweet with duplicate content."},
         "already"),
        (x.judge, 403, {"type": "https://api.x.com/2/problems/client-forbidden"}, "permanent"),
        (x.judge, 400, {"detail": "Your media IDs are invalid."}, "permanent"),
        (x.judge, 409, {}, "retry"),
        (mastodon.judge, 401, {"error": "The access token is invalid"}, "token"),
        (mastodon.judge, 422, {"error": "Validation failed"}, "permanent"),
        (mastodon.judge, 409, {}, "retry"),
        (bluesky.judge, 400, {"error": "ExpiredToken"}, "token"),
        (bluesky.judge, 400, {"error": "InvalidToken"}, "token"),
        (bluesky.judge, 401, {"error": "AuthMissing"}, "token"),
        (bluesky.judge, 400, {"error": "BlobTooLarge"}, "permanent"),
        (bluesky.judge, 400, {"error": "InvalidRequest"}, "permanent"),
    ],
)  # fmt: skip
def test_what_an_error_means(judge: Any, status: int, body: dict[str, Any], action: str) -> None:
    assert action_of(judge(status, body)) == action


def test_a_limit_without_retry_after_says_when_it_is_renewed() -> None:
    soon = clock.now() + timedelta(minutes=10)
    for name, text in (
        ("x-rate-limit-reset", str(int(soon.timestamp()))),
        ("X-RateLimit-Reset", soon.isoformat()),
        ("ratelimit-reset", str(int(soon.timestamp()))),
    ):
        found = client._later(httpx.Response(429, headers={name: text}))
        assert found.action == "later" and 590 < found.delay <= 600
    for text in ("", "soon", "-5", "99999999999999"):
        assert client._later(httpx.Response(429, headers={"x-rate-limit-reset": text})).delay == 60


def test_bluesky_notifies_whom_a_text_mentions(
    accounts: dict[str, Account], standin: Standin
) -> None:
    text = "Pane \U0001f35e @Rome.test, @nobody.test, a@rome.test https://a.test/@rome.test"
    standin.misbehave("repo.createRecord", "503")
    row = publish(accounts["bluesky"], 600, text=text)
    assert (row.status, row.attempts) == ("completed", 2), row.error
    [post] = standin.posts["bluesky"]
    [mention] = [one for one in post["facets"] if "did" in one["features"][0]]
    assert mention["features"] == [
        {"$type": "app.bsky.richtext.facet#mention", "did": "did:plc:rome"}
    ]
    where = mention["index"]
    assert text.encode()[where["byteStart"] : where["byteEnd"]].decode() == "@Rome.test"
    asked = [path for _, path in standin.calls if path.endswith("resolveHandle")]
    assert len(asked) == 2  # each once, however often the post is tried


def test_a_server_of_mastodon_says_how_long_texts_may_be(brand: Brand, standin: Standin) -> None:
    standin.longest = 5000
    account = verbs.connect(
        brand.pk, "mastodon", "Ours", "bakery", "token-0", by="root", reason="new",
        base_url=f"{standin.url}/mastodon",
    )  # fmt: skip
    account.refresh_from_db()
    assert account.text_limit == 5000
    draft = drafts.read({"caption": "x" * 600})
    assert preflight.look_at(brand.pk, draft, "mastodon").limit == 5000
    [line] = counters.of_form({"caption": "x" * 600}, ["mastodon"], brand.pk)
    assert not line["is_over"]
    assert publish(account, text="x" * 600).status == "completed"
    standin.longest = 550
    row = publish(account, text="y" * 600)
    assert (row.status, row.error) == ("failed", "the server takes 550 characters")
    account.refresh_from_db()
    with pytest.raises(Refused, match="600 characters; the channel takes 550"):
        services.enqueue(account, factories.post("mastodon", "z" * 600))
    others = factories.accounts(services.create_brand("other", "Other"), standin.url)
    with pytest.raises(Refused, match="the channel takes 500"):
        services.enqueue(others["mastodon"], factories.post("mastodon", "z" * 600))


@pytest.mark.parametrize("answer", ["503", "garbage", "drop"])
def test_a_server_that_says_nothing_takes_what_is_usual(
    answer: str, brand: Brand, standin: Standin
) -> None:
    standin.misbehave("api/v2/instance", answer)
    account = verbs.connect(
        brand.pk, "mastodon", "Ours", "bakery", "token-0", by="root", reason="new",
        base_url=f"{standin.url}/mastodon",
    )  # fmt: skip
    assert account.text_limit is None

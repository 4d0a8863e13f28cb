"""A post from its acceptance to its appearance, on every channel, against a rude stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import jobs
from config.standins.publisher import Standin
from jobs import flow
from jobs.testing import emitted, freeze_clock, lose_at_fence, run_jobs
from publisher import services, verbs
from publisher.connectors import tiktok
from publisher.models import Account, Channel, Publication
from publisher.payloads import PAYLOADS
from tests.publisher import factories

pytestmark = pytest.mark.django_db
CHANNELS = list(Channel.values)
PUBLISHING = {
    "meta_facebook": "POST /page/feed", "meta_instagram": "POST /user/media_publish",
    "meta_instagram_stories": "POST /user/media_publish",
    "google_business": "POST /v4/accounts/1/loc/2/localPosts",
    "wordpress_blog": "POST /wp-json/wp/v2/posts", "tiktok": "PUT /upload/v_pub_file~17000001",
    "youtube": "PUT /session/17000001", "linkedin": "POST /rest/posts", "x": "POST /2/tweets",
    "mastodon": "POST /api/v1/statuses", "bluesky": "POST /xrpc/com.atproto.repo.createRecord",
}  # fmt: skip


def run_for(seconds: float) -> None:
    """Run what becomes due within this time."""
    with freeze_clock() as clock:
        run_jobs(["publisher"])
        for _ in range(int(seconds // 30)):
            clock.tick(30)
            run_jobs(["publisher"])


def publish(account: Account, seconds: float = 60, **fields: Any) -> Publication:
    made = services.enqueue(account, factories.post(account.channel, **fields)).row
    run_for(seconds)
    return Publication.objects.get(pk=made.pk)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_post_appears_once(channel: str, accounts: dict[str, Account], standin: Standin) -> None:
    row = publish(accounts[channel])
    assert (row.status, row.reason, row.error, row.attempts) == ("completed", "", "", 1)
    [post] = standin.posts[factories.POSTED[channel]]
    assert row.remote_id == str(post.get("name") or post["id"])
    assert row.url.startswith(standin.url)
    assert jobs.get(row.pk).state == jobs.JobState.SUCCEEDED
    [event] = emitted("publisher.publication.completed")
    assert event.payload == {"publication": str(row.pk)} and event.tenant == "brand:acme"


@pytest.mark.parametrize(
    ("channel", "setting", "service", "url"),
    [
        ("meta_facebook", "GRAPH_URL", "graph", "https://www.facebook.com/{}"),
        ("youtube", "YOUTUBE_URL", "youtube", "https://www.youtube.com/watch?v={}"),
        ("tiktok", "TIKTOK_URL", "tiktok", ""),  # it is moderated, and has no id yet
    ],
)
def test_a_post_at_the_provider_has_its_public_address(
    channel: str, setting: str, service: str, url: str, accounts: dict[str, Account],
    standin: Standin, settings: Any,
) -> None:  # fmt: skip
    settings.PUBLISHER = {**settings.PUBLISHER, setting: f"{standin.url}/{service}"}
    Account.objects.update(base_url="")
    row = publish(Account.objects.get(channel=channel))
    assert row.url == url.format(row.remote_id)


def test_a_video_on_tiktok_has_an_address_once_its_id_is_known() -> None:
    run: Any = SimpleNamespace(row=SimpleNamespace(handle={"creator": "bakery"}))
    assert tiktok._page(run, "73") == "https://www.tiktok.com/@bakery/video/73"
    assert tiktok._page(run, "v_pub_file~1") == ""


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("fault", ["drop", "late", "garbage"])
def test_what_has_appeared_without_an_answer_is_found_and_not_posted_again(
    channel: str, fault: str, accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave(PUBLISHING[channel], fault)
    row = publish(accounts[channel], 600)
    assert row.status == "completed", row.error
    # What TikTok answers to a chunk has no body to read.
    assert row.doubted or (channel, fault) == ("tiktok", "garbage")
    [post] = standin.posts[factories.POSTED[channel]]
    if channel != Channel.META_INSTAGRAM_STORIES:  # which has no text to find it by
        assert row.remote_id == str(post.get("name") or post["id"])


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_post_in_doubt_that_is_run_now_is_found_at_once(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave(PUBLISHING[channel], "drop")
    row = publish(accounts[channel], 30)
    assert (row.status, row.doubted) == ("pending", True)
    flow.run_now(row.pk, by="tests", reason="to ask whether it has appeared")
    run_for(30)  # what is not found waits for longer
    row.refresh_from_db()
    assert row.status == "completed", row.error
    assert len(standin.posts[factories.POSTED[channel]]) == 1


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("fault", ["500", "503"])
def test_an_error_before_the_effect_is_followed_by_one_post(
    channel: str, fault: str, accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave(PUBLISHING[channel], fault)
    row = publish(accounts[channel], 600)
    assert row.status == "completed", row.error
    assert len(standin.posts[factories.POSTED[channel]]) == 1


@pytest.mark.parametrize("channel", CHANNELS)
def test_too_many_requests_cost_no_attempt(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave(PUBLISHING[channel], "429")
    row = publish(accounts[channel], 60)
    assert (row.status, row.attempts) == ("pending", 1)
    run_for(240)
    row.refresh_from_db()
    assert (row.status, row.attempts) == ("completed", 1)


@pytest.mark.parametrize("channel", CHANNELS)
def test_an_attempt_that_lost_its_job_writes_nothing_and_nothing_is_posted_twice(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    made = services.enqueue(accounts[channel], factories.post(channel)).row
    with lose_at_fence(PAYLOADS[channel], times=1):
        run_for(600)
    assert Publication.objects.get(pk=made.pk).status == "completed"
    assert len(standin.posts[factories.POSTED[channel]]) == 1


def test_a_forged_job_changes_nothing(accounts: dict[str, Account], standin: Standin) -> None:
    row = services.enqueue(accounts["meta_facebook"], factories.post("meta_facebook")).row
    payload = PAYLOADS["meta_facebook"](publication_id=row.pk)
    forged = jobs.enqueue(payload, tenant="brand:other")
    jobs.cancel(row.pk, by="tests", reason="only the forged one is to run")
    run_jobs(["publisher"])
    assert jobs.get(forged.id).state == jobs.JobState.FAILED
    assert not standin.calls


def test_a_duplicate_fails_unless_it_is_ours(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["meta_facebook"]
    publish(account)
    row = publish(account, 600)  # the same text, posted on purpose
    assert (row.status, row.reason, row.error) == ("failed", "permanent", "meta 506")
    assert len(standin.posts["page"]) == 1


def test_a_first_comment_follows_once(accounts: dict[str, Account], standin: Standin) -> None:
    standin.misbehave("/comments", "none", "none", "drop")
    row = publish(accounts["meta_instagram"], 600, ig_first_comment="Order on acme.test")
    [child] = Publication.objects.filter(parent=row)
    assert (child.type, child.status) == ("ig_first_comment", "completed"), child.error
    [[comment]] = standin.comments.values()
    assert comment["text"] == "Order on acme.test" and child.remote_id == comment["id"]


def test_a_token_that_is_not_good_disconnects_and_posts_follow_its_return(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["meta_facebook"]
    standin.expired.add("token-0")
    row = publish(account, 120)
    account.refresh_from_db()
    assert (row.status, account.status) == ("pending", "needs_reconnect")
    assert len(emitted("publisher.account.needs_reconnect")) == 1
    verbs.reconnect(account.pk, "token-9", by="tests", reason="they have given us a new one")
    run_for(300)  # the clock begins anew
    row.refresh_from_db()
    assert (row.status, row.attempts) == ("completed", 1)

"""Videos that are sent in portions: where an upload goes on, and what it may cost."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from config.standins.publisher import Standin
from jobs.testing import run_jobs
from publisher import services, verbs
from publisher.connectors import tiktok, youtube
from publisher.models import Account, Publication
from tests.publisher import factories
from tests.publisher.test_publishing import publish, run_for

pytestmark = pytest.mark.django_db
CHANNELS = {"tiktok": tiktok.CHUNK, "youtube": youtube.CHUNK}


@pytest.mark.parametrize("channel", CHANNELS)
def test_three_chunks_arrive_as_they_are(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    size = CHANNELS[channel] * 2 + 1234567
    row = publish(accounts[channel], 120, media=[factories.video(size)])
    assert row.status == "completed", row.error
    [upload] = standin.uploads.values()
    assert (upload["got"], standin.damaged, len(standin.posts[channel])) == (size, 0, 1)


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("fault", ["drop", "500"])
def test_an_upload_goes_on_where_the_provider_is(
    channel: str, fault: str, accounts: dict[str, Account], standin: Standin
) -> None:
    """The second portion of three is lost, or its answer is."""
    chunk = CHANNELS[channel]
    path = {"tiktok": "PUT /upload/v_pub_file~17000001", "youtube": "PUT /session/17000001"}
    standin.misbehave(path[channel], "none", fault)
    row = publish(accounts[channel], 600, media=[factories.video(chunk * 3 + 17)])
    assert row.status == "completed", row.error
    assert standin.damaged == 0 and len(standin.posts[channel]) == 1
    [upload] = standin.uploads.values()  # no other was begun
    assert upload["got"] == chunk * 3 + 17


@pytest.mark.parametrize("size", [1, 5 * 1024**2 - 1, 5 * 1024**2, 10 * 1024**2 - 1])
def test_tiktok_takes_every_size_in_chunks_it_allows(
    size: int, accounts: dict[str, Account], standin: Standin
) -> None:
    assert publish(accounts["tiktok"], 60, media=[factories.video(size)]).status == "completed"


def test_what_tiktok_fails_to_process_can_be_replayed(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.fails = "spam_risk_too_many_posts"
    row = publish(accounts["tiktok"])
    assert (row.status, row.error) == ("failed", "tiktok spam_risk_too_many_posts")
    standin.fails = ""
    verbs.replay(row.pk, by="tests", reason="they have lifted it")
    run_for(120)
    row.refresh_from_db()
    assert row.status == "completed" and len(standin.posts["tiktok"]) == 1


def test_a_session_that_is_gone_is_begun_anew(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("PUT /session/17000001", "404")
    row = publish(accounts["youtube"], 600)
    assert row.status == "completed" and len(standin.posts["youtube"]) == 1
    assert len(standin.uploads) == 2


def test_the_quota_of_youtube_is_awaited_until_pacific_midnight() -> None:
    error = youtube.judge(403, {"error": {"errors": [{"reason": "quotaExceeded"}]}})
    assert getattr(error, "action", "") == "later"
    moment = datetime(2031, 7, 1, 6, 0, tzinfo=UTC)  # 23:00 the day before, in California
    assert youtube._until_midnight(moment) == 3600


def test_media_without_ranges_are_refused(accounts: dict[str, Account], standin: Standin) -> None:
    media = {"url": f"{standin.url}/blog/wp-json/wp/v2/posts", "kind": "video"}
    row = services.enqueue(accounts["youtube"], factories.post("youtube", media=[media])).row
    run_jobs(["publisher"])
    row = Publication.objects.get(pk=row.pk)
    assert (row.status, row.reason) == ("failed", "permanent")
    assert row.error == "the media's server sends no parts of it"

"""Errors of the providers, code by code: what a post does after each."""

from __future__ import annotations

from typing import Any

import pytest

from config.standins.publisher import Standin
from publisher import services, verbs
from publisher.connectors import google_business, graph, tiktok, wordpress, youtube
from publisher.errors import ProviderError, Unclear
from publisher.models import Account, Publication
from tests.publisher import factories
from tests.publisher.test_publishing import publish, run_for


def action_of(found: ProviderError | Unclear | None) -> str:
    return found.action if isinstance(found, ProviderError) else "unclear"


def meta(code: int, subcode: int = 0, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "error_subcode": subcode, "message": "no", **more}}


@pytest.mark.parametrize(
    ("codes", "action"),
    [
        ([1, 2], "unclear"),  # they do not say whether anything was done
        ([4, 17, 32, 341, 613, 9007], "retry"),
        ([80001, 80002], "later"),
        ([102, 190], "token"),
        ([506], "already"),
        ([10, 100, 200, 299, 368, 803, 99999], "permanent"),
    ],
)
def test_codes_of_meta(codes: list[int], action: str) -> None:
    for code in codes:
        assert action_of(graph.judge(400, meta(code))) == action, code


@pytest.mark.parametrize(
    ("subcodes", "action"),
    [
        ([2207001, 2207003, 2207020, 2207027, 2207032, 2207053], "retry"),
        ([2207042], "later"),
        ([2207051, 2207057], "permanent"),
    ],
)
def test_subcodes_of_instagram_come_before_the_code(subcodes: list[int], action: str) -> None:
    for subcode in subcodes:
        for code in (4, 36, 9004, 9007):
            assert action_of(graph.judge(400, meta(code, subcode))) == action, subcode


def test_what_meta_calls_transient_or_posted_already() -> None:
    assert action_of(graph.judge(400, meta(368, message="You've already posted this"))) == "already"
    assert action_of(graph.judge(400, meta(99, is_transient=True))) == "retry"
    assert action_of(graph.judge(401, {})) == "token"
    assert action_of(graph.judge(403, {"error": "text"})) == "permanent"


@pytest.mark.parametrize(
    ("code", "action"),
    [
        ("access_token_invalid", "token"), ("rate_limit_exceeded", "later"),
        ("internal_error", "retry"), ("internal", "retry"),
        ("spam_risk_too_many_posts", "permanent"),
        ("spam_risk_user_banned_from_posting", "permanent"),
        ("unaudited_client_can_only_post_to_private_accounts", "permanent"),
        ("privacy_level_option_mismatch", "permanent"), ("scope_not_authorized", "permanent"),
        ("url_ownership_unverified", "permanent"), ("invalid_params", "permanent"),
        ("something_new", "permanent"),
    ],
)  # fmt: skip
def test_codes_of_tiktok_inside_any_status(code: str, action: str) -> None:
    body = {"data": {}, "error": {"code": code}}
    assert action_of(tiktok.refusal(body)) == action
    for status in (400, 401, 403):
        assert action_of(tiktok.judge(status, body)) == action
    assert tiktok.refusal({"data": {}, "error": {"code": "ok"}}) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("status", "reason", "action"),
    [
        (403, "quotaExceeded", "later"), (400, "uploadLimitExceeded", "later"),
        (403, "rateLimitExceeded", "retry"), (403, "userRateLimitExceeded", "retry"),
        (400, "backendError", "retry"), (401, "authError", "token"), (401, "", "token"),
        (409, "conflict", "retry"), (403, "forbidden", "permanent"),
        (400, "invalidTitle", "permanent"), (403, "youtubeSignupRequired", "permanent"),
    ],
)  # fmt: skip
def test_reasons_of_youtube(status: int, reason: str, action: str) -> None:
    body = {"error": {"errors": [{"reason": reason}]}}
    assert action_of(youtube.judge(status, body)) == action


@pytest.mark.parametrize(
    ("status", "name", "action"),
    [
        (401, "UNAUTHENTICATED", "token"), (429, "RESOURCE_EXHAUSTED", "later"),
        (409, "ABORTED", "retry"), (503, "UNAVAILABLE", "retry"), (500, "INTERNAL", "retry"),
        (403, "PERMISSION_DENIED", "permanent"), (400, "INVALID_ARGUMENT", "permanent"),
        (404, "NOT_FOUND", "permanent"), (400, "FAILED_PRECONDITION", "permanent"),
    ],
)  # fmt: skip
def test_names_of_google(status: int, name: str, action: str) -> None:
    body = {"error": {"code": status, "status": name}}
    assert action_of(google_business.judge(status, body)) == action


@pytest.mark.parametrize(
    ("status", "code", "action"),
    [
        (401, "rest_cannot_create", "permanent"), (401, "incorrect_password", "token"),
        (401, "", "token"), (403, "rest_forbidden", "permanent"),
        (400, "rest_invalid_param", "permanent"), (404, "rest_no_route", "permanent"),
    ],
)  # fmt: skip
def test_codes_of_wordpress(status: int, code: str, action: str) -> None:
    assert action_of(wordpress.judge(status, {"code": code})) == action


# ---- what follows from them


@pytest.mark.django_db
@pytest.mark.parametrize("subcode", [2207020, 2207053])
def test_a_spent_container_is_made_anew(
    subcode: int, accounts: dict[str, Account], standin: Standin
) -> None:
    standin.refuse("media_publish", 400, meta(9007, subcode))
    row = publish(accounts["meta_instagram"], 600)
    assert (row.status, row.attempts) == ("completed", 2), row.error
    assert len(standin.containers) == 2 and len(standin.posts["user"]) == 1


@pytest.mark.django_db
def test_media_that_instagram_cannot_process_may_be_replayed(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.fails = "Media upload has failed with error code 2207057"
    row = publish(accounts["meta_instagram"], 60)
    assert (row.status, row.reason) == ("failed", "permanent")
    assert row.error == "meta container ERROR/2207057"
    standin.fails = ""
    verbs.replay(row.pk, by="tests", reason="the image was replaced")
    run_for(60)
    row.refresh_from_db()
    assert row.status == "completed" and len(standin.posts["user"]) == 1


@pytest.mark.django_db
def test_the_quota_of_youtube_closes_the_channel_until_pacific_midnight(
    accounts: dict[str, Account], standin: Standin
) -> None:
    others = factories.accounts(services.create_brand("other", "Other"), standin.url)
    factories.origin = standin.url
    body = {"error": {"errors": [{"reason": "quotaExceeded"}]}}
    standin.refuse("upload/youtube/v3/videos", 403, body)
    row = publish(accounts["youtube"], 30)
    calls = len(standin.calls)
    other = publish(others["youtube"], 30)
    assert (row.status, row.attempts, other.status) == ("pending", 1, "pending")
    assert len(standin.calls) == calls
    row.refresh_from_db()
    assert row.run_at.astimezone(youtube.PACIFIC).hour == 0
    assert publish(accounts["wordpress_blog"]).status == "completed"


@pytest.mark.django_db
def test_a_session_that_is_gone_after_the_last_portion_leaves_a_doubt(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("PUT /session/17000001", "drop", "404", "404")
    row = publish(accounts["youtube"], 600)
    assert (row.status, row.reason) == ("failed", "in_doubt")
    verbs.settle(row.pk, "publish_again", by="tests", reason="it is not there")
    standin.posts["youtube"].clear()
    standin.uploads.clear()
    run_for(600)
    row = Publication.objects.get(pk=row.pk)
    assert row.status == "completed" and len(standin.posts["youtube"]) == 1


@pytest.mark.django_db
def test_the_daily_quota_of_instagram_holds_its_account_without_an_attempt(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.quota = (50, 50)
    row = publish(accounts["meta_instagram"], 60)
    assert (row.status, row.error) == ("pending", "meta content_publishing_limit")
    assert not standin.posts["user"]
    standin.quota = (49, 50)
    run_for(4000)
    row.refresh_from_db()
    assert (row.status, row.attempts) == ("completed", 1)
    assert len(standin.posts["user"]) == 1

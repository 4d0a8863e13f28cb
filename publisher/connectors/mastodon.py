"""Mastodon: statuses on the server of the account."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import jobs
from jobs import effects, http
from publisher import keys
from publisher.connectors import counting
from publisher.connectors.base import (
    EARLY,
    Connector,
    Published,
    Run,
    Taken,
    moment_of,
    publishing_key,
    status_faults,
    with_link,
)
from publisher.connectors.client import Api, bearer, id_of
from publisher.connectors.media import Source, fetched
from publisher.content import Content
from publisher.errors import Fault, ProviderError, Unclear
from publisher.models import Account

LARGEST = 99 * 1024 * 1024
POLL = 5.0
VISIBILITY = {"public": "public", "unlisted": "unlisted", "private": "private"}
WORDS = "Mastodon takes up to 4 images, or one video"


class Mastodon(Connector):
    """Publishes as an account of a server."""

    limit, left_out = 500, ("title",)
    needs_address = asks_limit = True
    images = Taken(("image/jpeg", "image/png", "image/gif", "image/webp"), 16_000_000)

    def length(self, content: Content) -> int:
        """Return the length: links count 23, and mentions without their server."""
        return counting.shortened(with_link(content))

    def faults(self, content: Content) -> list[Fault]:
        """Return why a server would not take the post."""
        return self.too_long(content) + status_faults(content, WORDS)

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the body of the call, but for the ids of media."""
        return {"status": with_link(content), "visibility": VISIBILITY[content.privacy]}

    def publish(self, run: Run) -> Published:
        """Publish the post; the server knows a repeated call for an hour by its key."""
        api = Api(run, "mastodon", run.account.base_url, judge, bearer)
        body = self.preview(run.content)
        if not run.has_begun:
            self._check_limit(run, api)
            for number in range(len(run.content.media)):
                _prepare(run, api, number)
        ids = [run.row.handle[f"media{number}"] for number in range(len(run.content.media))]

        def call() -> Any:
            headers = {"Idempotency-Key": f"{run.row.pk.hex}:{publishing_key(run.row)}"}
            more = {"media_ids": ids} if ids else {}
            return _outcome(api.post("api/v1/statuses", json={**body, **more}, headers=headers))

        def find(intent: effects.Intent) -> effects.Answer:
            me = id_of(api.get("api/v1/accounts/verify_credentials"))
            posts = api.get(f"api/v1/accounts/{me}/statuses", limit=40, exclude_reblogs="true")
            if not isinstance(posts, list):
                raise Unclear("the answer has no list")
            for post in posts:
                made = moment_of(post.get("created_at"))
                is_new = made is not None and made >= intent.intended_at - EARLY
                if is_new and body["status"] and _same(post.get("content"), body["status"]):
                    return effects.Happened(_outcome(post))
            return effects.NotHappened() if body["status"] else effects.Unknown("it has no text")

        outcome = run.publish(call, find) or {}
        return Published(str(outcome.get("id", "")), str(outcome.get("url", "")))

    def _check_limit(self, run: Run, api: Api) -> None:
        """Refuse a text that is too long for this server, before anything is sent to it."""
        if (found := _longest(api.get("api/v2/instance"))) is None:
            return
        if found != run.account.text_limit:
            Account.objects.filter(pk=run.account.pk).update(text_limit=found)
        if self.length(run.content) > found:
            raise ProviderError("permanent", f"the server takes {found} characters")

    def longest(self, base_url: str) -> int | None:
        """Return how long a text the server takes, if it says so."""
        with suppress(http.HttpError, ValueError):
            answer = http.get(f"{base_url.rstrip('/')}/api/v2/instance", total=5)
            return _longest(answer.json()) if answer.status_code == 200 else None
        return None


def _longest(about: Any) -> int | None:
    """Return how many characters a server takes, of what it says about itself."""
    for name in ("configuration", "statuses", "max_characters"):
        about = about.get(name) if isinstance(about, dict) else None
    if isinstance(about, int) and not isinstance(about, bool) and 0 < about < 10**6:
        return about
    return None


def _same(content: object, text: str) -> bool:
    """Return whether the HTML of a status shows the text."""
    shown = re.sub(r"\s+", "", keys.text_of(str(content or "")))
    return shown == re.sub(r"\s+", "", counting.without_servers(text))


def _prepare(run: Run, api: Api, number: int) -> None:
    """Upload an image or video, and keep its id; snooze until the server has processed it."""
    media, name = run.content.media[number], f"media{number}"
    if name not in run.row.handle:

        def upload(data: Any, content_type: str) -> Any:
            files = {"file": (f"media{number}", data, content_type)}
            about = {"description": media.alt_text} if media.alt_text else {}
            made = id_of(api.post("api/v2/media", files=files, data=about))
            run.keep(**{name: made})
            return {"id": made}

        def call() -> Any:
            if media.kind == "image":
                picture = fetched(run.ctx, media.url, Mastodon.images.most)
                return upload(picture.data, picture.content_type)
            source = Source(run.ctx, media.url)
            size = source.size()
            if not 0 < size <= LARGEST:
                raise ProviderError("permanent", "the video is empty or larger than 99 MB")
            with source.portion(0, size, size) as file:
                return upload(file, "video/mp4")

        run.step(f"{name}:{run.ctx.attempt}", call)
    if not api.get(f"api/v1/media/{run.row.handle[name]}").get("url"):
        raise jobs.Snooze(POLL, "the server is processing the media")


def _outcome(answer: Any) -> dict[str, str]:
    return {"id": id_of(answer), "url": str(answer.get("url") or "")[:2000]}


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of a server means."""
    if status == 401:
        return ProviderError("token", "mastodon 401")
    return ProviderError("retry" if status in (408, 409) else "permanent", f"mastodon {status}")

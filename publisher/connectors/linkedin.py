"""LinkedIn: posts of members and pages, with an article or images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import jobs
from jobs import effects
from publisher import config
from publisher.connectors.base import (
    EARLY,
    Connector,
    Published,
    Run,
    Taken,
    link_faults,
    media_faults,
)
from publisher.connectors.client import Api, bearer, id_of, rows_of
from publisher.connectors.media import fetched
from publisher.content import Content
from publisher.errors import Fault, ProviderError, Unclear
from publisher.models import Account

TITLE_LIMIT = 400
POLL = 5.0
HELD = 300.0
"""Seconds that posts wait where LinkedIn does not know the version of its API any more."""
_RESERVED = re.compile(r"[\\|{}@\[\]()<>*_~]|#(?!\w)")
"""What is to be escaped: LinkedIn cuts the text there otherwise. ``#word`` stays a hashtag."""
_URN = re.compile(r"urn:li:(?:share|ugcPost|activity):\d+")


class LinkedIn(Connector):
    """Publishes as a member or a page."""

    limit = 3000
    images = Taken(("image/jpeg", "image/png", "image/gif"), 8_000_000)

    def faults(self, content: Content) -> list[Fault]:
        """Return why LinkedIn would not take the post."""
        found = self.too_long(content) + link_faults(content)
        found += media_faults(content, 10, ("image",), "LinkedIn takes up to 10 images here")
        if content.media and content.link:
            found.append(Fault("link", "a post with images has no link: write it into the text"))
        if len(content.title) > TITLE_LIMIT:
            found.append(Fault("title", f"has more than {TITLE_LIMIT} characters"))
        if not (content.text.strip() or content.link or content.media):
            found.append(Fault("caption", "the post is empty"))
        return found

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the body of the call, but for its author and the ids of images."""
        return _body(content, "", ["" for _ in content.media])

    def publish(self, run: Run) -> Published:
        """Publish the post."""
        base = run.account.base_url or config.settings().LINKEDIN_URL
        api, author = Api(run, "linkedin", base, judge, _sign), run.account.remote_account
        if not run.has_begun:
            _prepare(run, api, author)
        images = [run.row.handle[f"image{number}"] for number in range(len(run.content.media))]

        def call() -> Any:
            made = api.opened("rest/posts", json=_body(run.content, author, images))
            if not (remote := made.headers.get("x-restli-id", "")):
                raise Unclear("the answer has no id")
            return {"id": remote[:191]}

        def find(intent: effects.Intent) -> effects.Answer:
            if not author.startswith("urn:li:organization:"):
                return effects.Unknown("LinkedIn does not show the posts of members")
            asked = {"q": "author", "author": author, "count": 50, "sortBy": "CREATED"}
            for post in rows_of(api.get("rest/posts", **asked), "elements"):
                made = datetime.fromtimestamp(float(post.get("createdAt") or 0) / 1000, UTC)
                if made < intent.intended_at - EARLY:
                    break
                if run.content.text and _plain(post.get("commentary")) == _plain(_text(run)):
                    return effects.Happened({"id": str(post.get("id", ""))[:191]})
            if not run.content.text:
                return effects.Unknown("the page's posts do not show it for certain")
            return effects.NotHappened()

        remote = str((run.publish(call, find) or {}).get("id", ""))
        url = f"https://www.linkedin.com/feed/update/{quote(remote, safe=':')}/"
        return Published(remote, run.link(url, remote))


def _text(run: Run) -> str:
    return escaped(run.content.text)


def _plain(text: object) -> str:
    """Return a text without its escapes, as LinkedIn may return it either way."""
    return re.sub(r"\\(.)", r"\1", str(text or "")).strip()


def escaped(text: str) -> str:
    """Return a text in which nothing means more than itself, but for hashtags."""
    return _RESERVED.sub(lambda found: f"\\{found[0]}", text)


def _body(content: Content, author: str, images: list[str]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "author": author, "commentary": escaped(content.text), "visibility": "PUBLIC",
        "distribution": {
            "feedDistribution": "MAIN_FEED", "targetEntities": [],
            "thirdPartyDistributionChannels": [],
        },
        "lifecycleState": "PUBLISHED", "isReshareDisabledByAuthor": False,
    }  # fmt: skip
    shown = [
        {"id": urn, **({"altText": media.alt_text} if media.alt_text else {})}
        for urn, media in zip(images, content.media, strict=False)
    ]
    if len(shown) == 1:
        body["content"] = {"media": shown[0]}
    elif shown:
        body["content"] = {"multiImage": {"images": shown}}
    elif content.link:
        body["content"] = {
            "article": {"source": content.link, "title": content.title or content.link}
        }
    return body


def _prepare(run: Run, api: Api, author: str) -> None:
    """Upload the images, and keep their ids; snooze until LinkedIn has processed them."""
    for number in range(len(run.content.media)):
        if f"image{number}" not in run.row.handle:
            _upload(run, api, author, number)
    for number in range(len(run.content.media)):
        urn = run.row.handle[f"image{number}"]
        status = api.get(f"rest/images/{quote(urn, safe='')}").get("status")
        if status == "PROCESSING_FAILED":
            raise ProviderError("permanent", "linkedin image PROCESSING_FAILED")
        if status != "AVAILABLE":
            raise jobs.Snooze(POLL, "LinkedIn is processing the images")


def _upload(run: Run, api: Api, author: str, number: int) -> None:
    def call() -> Any:
        picture = fetched(run.ctx, run.content.media[number].url, LinkedIn.images.most)
        asked = {"initializeUploadRequest": {"owner": author}}
        made = api.post("rest/images", params={"action": "initializeUpload"}, json=asked)
        value = made.get("value") or {}
        url, urn = str(value.get("uploadUrl", "")), id_of(value, "image")
        headers = {"Content-Type": picture.content_type}
        answer = api.raw("PUT", url, headers=headers, content=picture.data, sign=True)
        if answer.status_code not in (200, 201):
            raise ProviderError("retry", f"linkedin upload {answer.status_code}")
        run.keep(**{f"image{number}": urn})
        return {"id": urn}

    run.step(f"image{number}:{run.ctx.attempt}", call)


def _sign(account: Account) -> Mapping[str, str]:
    version = config.settings().LINKEDIN_VERSION
    return {**bearer(account), "LinkedIn-Version": version, "X-Restli-Protocol-Version": "2.0.0"}


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of LinkedIn means."""
    code, message = str(body.get("code", ""))[:60], str(body.get("message", ""))
    name = f"linkedin {code or status}"
    if status == 401:
        return ProviderError("token", name)
    if status == 426:  # the setting names a version that has been retired
        return ProviderError("later", name, HELD, "kind")
    if status == 422 and (code == "DUPLICATE_POST" or "duplicate of" in message.lower()):
        found = _URN.search(message)
        return ProviderError("already", name, remote_id=found[0] if found else "")
    return ProviderError("retry" if status == 409 else "permanent", name)

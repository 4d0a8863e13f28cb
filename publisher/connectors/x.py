"""X: posts with up to four images, or one video."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import jobs
from jobs import effects
from publisher import config
from publisher.connectors import counting
from publisher.connectors.base import (
    EARLY,
    Connector,
    Published,
    Run,
    Taken,
    moment_of,
    status_faults,
    with_link,
)
from publisher.connectors.client import Api, bearer, id_of, rows_of
from publisher.connectors.media import Source, fetched
from publisher.content import Content, Media
from publisher.errors import Fault, ProviderError, Unclear

PART = 4 * 1024 * 1024
LARGEST = 512 * 1024 * 1024
POLL = 5.0
WORDS = "X takes up to 4 images, or one video"


class X(Connector):
    """Publishes as a user."""

    limit, left_out = 280, ("title",)
    images = Taken(("image/jpeg", "image/png", "image/webp"), 5_000_000)

    def length(self, content: Content) -> int:
        """Return the weighted length: links count 23, emoji and many scripts 2."""
        return counting.weighted(with_link(content))

    def faults(self, content: Content) -> list[Fault]:
        """Return why X would not take the post."""
        return self.too_long(content) + status_faults(content, WORDS)

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the body of the call, but for the ids of media."""
        return {"text": with_link(content)}

    def publish(self, run: Run) -> Published:
        """Publish the post."""
        api = Api(run, "x", run.account.base_url or config.settings().X_URL, judge, bearer)
        if not run.has_begun:
            for number in range(len(run.content.media)):
                _prepare(run, api, number)
        ids = [run.row.handle[f"media{number}"] for number in range(len(run.content.media))]
        text = with_link(run.content)

        def call() -> Any:
            media = {"media": {"media_ids": ids}} if ids else {}
            return {"id": id_of(_data(api.post("2/tweets", json={"text": text, **media})))}

        def find(intent: effects.Intent) -> effects.Answer:
            asked = {"max_results": 100, "tweet.fields": "created_at,text,entities"}
            try:
                posts = rows_of(
                    api.get(f"2/users/{run.account.remote_account}/tweets", **asked), "data"
                )
            except ProviderError as error:
                if error.action != "permanent":
                    raise
                return effects.Unknown("X does not show the posts of the account")
            for post in posts:
                made = moment_of(post.get("created_at"))
                is_new = made is not None and made >= intent.intended_at - EARLY
                if is_new and text and _as_written(post) == text:
                    return effects.Happened({"id": id_of(post)})
            return effects.NotHappened() if text else effects.Unknown("it has no text")

        remote = str((run.publish(call, find) or {}).get("id", ""))
        return Published(remote, run.link(f"https://x.com/i/web/status/{remote}", remote))


def _as_written(post: Mapping[str, Any]) -> str:
    """Return the text of a post with its links as they were written."""
    text = html.unescape(str(post.get("text", "")))
    for link in (post.get("entities") or {}).get("urls") or ():
        short, long = str(link.get("url", "")), str(link.get("expanded_url", ""))
        # The last link of a post with media leads to the media.
        text = text.replace(short, "" if link.get("media_key") else long)
    return text.strip()


def _prepare(run: Run, api: Api, number: int) -> None:
    """Upload an image or video, and keep its id; snooze while X processes it."""
    media, name = run.content.media[number], f"media{number}"
    if name not in run.row.handle:
        upload = _video if media.kind == "video" else _image

        def call() -> Any:
            made = upload(run, api, media)
            if media.alt_text:
                told = {"id": made, "metadata": {"alt_text": {"text": media.alt_text}}}
                api.opened("2/media/metadata", json=told)
            run.keep(**{name: made})
            return {"id": made}

        run.step(f"{name}:{run.ctx.attempt}", call)
    if media.kind == "video":
        _await(run, api, str(run.row.handle[name]), name)


def _image(run: Run, api: Api, media: Media) -> str:
    picture = fetched(run.ctx, media.url, X.images.most)
    made = _begun(api, picture.content_type, len(picture.data), "tweet_image")
    _append(api, made, 0, picture.data)
    _data(api.post(f"2/media/upload/{made}/finalize"))
    return made


def _video(run: Run, api: Api, media: Media) -> str:
    source = Source(run.ctx, media.url)
    size = source.size()
    if not 0 < size <= LARGEST:
        raise ProviderError("permanent", "the video is empty or larger than 512 MB")
    made = _begun(api, "video/mp4", size, "tweet_video")
    for number, start in enumerate(range(0, size, PART)):
        run.ctx.checkpoint()
        with source.portion(start, min(PART, size - start), size) as file:
            _append(api, made, number, file.read())
    _data(api.post(f"2/media/upload/{made}/finalize"))
    return made


def _begun(api: Api, content_type: str, size: int, category: str) -> str:
    body = {"media_type": content_type, "total_bytes": size, "media_category": category}
    return id_of(_data(api.post("2/media/upload/initialize", json=body)))


def _append(api: Api, made: str, number: int, data: bytes) -> None:
    how = {"data": {"segment_index": str(number)}, "files": {"media": ("part", data)}}
    api.opened(f"2/media/upload/{made}/append", **how)


def _await(run: Run, api: Api, media_id: str, name: str) -> None:
    found = _data(api.get("2/media/upload", command="STATUS", media_id=media_id))
    state = (found.get("processing_info") or {}).get("state", "succeeded")
    if state == "failed":
        run.keep(**{name: None})
        raise ProviderError("permanent", "x media failed")
    if state != "succeeded":
        raise jobs.Snooze(POLL, "X is processing the video")


def _data(answer: Any) -> Mapping[str, Any]:
    found = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(found, dict):
        raise Unclear("the answer has no data")
    return found


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of X means."""
    kind = str(body.get("type", "")).rpartition("/")[2][:60]
    name = f"x {kind or status}" if kind not in ("", "about:blank", "blank") else f"x {status}"
    if status == 401:
        return ProviderError("token", name)
    if status == 403 and "duplicate content" in str(body.get("detail", "")).lower():
        return ProviderError("already", "x duplicate")
    return ProviderError("retry" if status == 409 else "permanent", name)

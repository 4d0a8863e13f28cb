"""Instagram: images, reels, carousels, stories, and the first comment on a post."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import jobs
from jobs import effects, http
from publisher import keys
from publisher.connectors import graph
from publisher.connectors.base import (
    EARLY,
    Connector,
    Published,
    Run,
    Taken,
    media_faults,
    moment_of,
)
from publisher.connectors.client import Api, id_of, rows_of
from publisher.content import Content
from publisher.errors import Fault, ProviderError, Unclear

HASHTAGS, COMMENT_LIMIT = 30, 300
JPEG = Taken(("image/jpeg",), 8_000_000)
POLL = 10.0
SPENT = ("/2207020", "/2207053")
"""Errors after which only a new container helps."""
_SUBCODE = re.compile(r"\b22\d{5}\b")
QUOTA_WAIT = 3600.0


class Instagram(Connector):
    """Publishes on the feed, and comments."""

    limit, ratio, left_out = 2200, (0.8, 1.91), ("title", "link")
    images = JPEG

    def faults(self, content: Content) -> list[Fault]:
        """Return why Instagram would not take the post or comment."""
        if content.type == "ig_first_comment":
            return _comment_faults(content)
        found = self.too_long(content)
        found += media_faults(content, 10, ("image", "video"), "Instagram takes up to 10 media")
        found += _type_faults(content)
        if not content.media:
            found.append(Fault("media", "Instagram needs an image or a video"))
        if content.link:
            found.append(Fault("link", "Instagram posts have no link"))
        if content.text.count("#") > HASHTAGS:
            found.append(Fault("caption", f"has more than {HASHTAGS} hashtags"))
        if len(content.ig_first_comment) > COMMENT_LIMIT:
            found.append(Fault("ig_first_comment", f"has more than {COMMENT_LIMIT} characters"))
        return found

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the containers, or the comment."""
        if content.type == "ig_first_comment":
            return {"media_id": content.media_id, "message": content.text}
        children, body = _containers(content)
        return {"children": children, **body}

    def publish(self, run: Run) -> Published:
        """Publish the post or comment."""
        if run.content.type == "ig_first_comment":
            return _comment(run)
        return _publish(run, *_containers(run.content))


class Stories(Connector):
    """Publishes stories."""

    left_out = ("caption", "title", "link")
    images = JPEG

    def faults(self, content: Content) -> list[Fault]:
        """Return why the story would not be taken."""
        words = "a story is one image or one video"
        found = media_faults(content, 1, ("image", "video"), words) + _type_faults(content)
        if not content.media:
            found.append(Fault("media", words))
        if content.text:
            found.append(Fault("caption", "stories have no text"))
        if content.link:
            found.append(Fault("link", "stories have no link here"))
        return found

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the container."""
        return _story(content)

    def publish(self, run: Run) -> Published:
        """Publish the story."""
        return _publish(run, [], _story(run.content))


def _type_faults(content: Content) -> list[Fault]:
    """Return the faults of images that are not JPEG, which is all that Instagram takes.

    Assets are converted.
    """
    words = "Instagram takes JPEG images, and this is {}: upload it as an asset, to convert it"
    return [
        Fault(f"media/{number}", words.format(one.content_type))
        for number, one in enumerate(content.media)
        if one.kind == "image" and not one.asset and one.content_type not in ("", "image/jpeg")
    ]


def _comment_faults(content: Content) -> list[Fault]:
    found = [] if content.media_id else [Fault("media_id", "names the post to comment on")]
    if not content.text.strip():
        found.append(Fault("caption", "the comment is empty"))
    if len(content.text) > COMMENT_LIMIT:
        found.append(Fault("caption", f"has more than {COMMENT_LIMIT} characters"))
    return found


def _story(content: Content) -> dict[str, Any]:
    [media] = content.media
    return {"media_type": "STORIES", f"{media.kind}_url": media.url}


def _containers(content: Content) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the containers of a carousel's items, and that of the post."""
    if len(content.media) == 1:
        [media] = content.media
        if media.kind == "video":
            return [], {"media_type": "REELS", "video_url": media.url, "caption": content.text}
        alt = {"alt_text": media.alt_text} if media.alt_text else {}
        return [], {"image_url": media.url, "caption": content.text, **alt}
    items: list[dict[str, Any]] = [
        {
            f"{media.kind}_url": media.url, "is_carousel_item": "true",
            **({"media_type": "VIDEO"} if media.kind == "video" else {}),
        }
        for media in content.media
    ]  # fmt: skip
    return items, {"media_type": "CAROUSEL", "caption": content.text}


def _publish(run: Run, items: list[dict[str, Any]], body: dict[str, Any]) -> Published:
    api, user = graph.api_of(run), run.account.remote_account
    if not run.has_begun:
        container = _ready_container(run, api, items, body)
        _check_quota(api, user)
    else:
        container = str(run.row.handle["container"])

    def call() -> Any:
        try:
            answer = api.post(f"{user}/media_publish", data={"creation_id": container})
        except ProviderError as error:
            # Instagram has published posts and still answered an error.
            if _status(api, container, doubtful=True) == "PUBLISHED":
                return _found(run, api, user) or {"id": ""}
            if error.code.endswith(SPENT):
                _forget(run)
            raise
        return {"id": id_of(answer)}

    def find(intent: effects.Intent) -> effects.Answer:
        status = _status(api, container)
        if status == "PUBLISHED":
            return effects.Happened(_found(run, api, user) or {"id": ""})
        if status == "FINISHED":
            return effects.NotHappened()
        if status == "IN_PROGRESS":
            raise jobs.Snooze(POLL, "Instagram is still processing it")
        return effects.Unknown(f"its container is {status}")

    remote = str((run.publish(call, find) or {}).get("id", ""))
    return Published(remote, _permalink(api, remote))


def _ready_container(run: Run, api: Api, items: list[dict[str, Any]], body: dict[str, Any]) -> str:
    """Return the container once it can be published; snooze until then."""
    known = run.row.handle.get("container")
    if known is None:
        children = [_create(run, api, f"item{n}", item) for n, item in enumerate(items)]
        for child in children:
            _await(run, api, child)
        more = {"children": ",".join(children)} if children else {}
        known = _create(run, api, "container", {**body, **more})
    _await(run, api, str(known))
    return str(known)


def _create(run: Run, api: Api, name: str, body: dict[str, Any]) -> str:
    """Create a container, unless it is known."""
    known = run.row.handle.get(name)
    if known is not None:
        return str(known)

    def call() -> Any:
        made = id_of(api.post(f"{run.account.remote_account}/media", data=body))
        run.keep(**{name: made})
        return {"id": made}

    generation = run.row.handle.get("generation", 1)
    return str(run.step(f"{name}:{generation}", call)["id"])


def _await(run: Run, api: Api, container: str) -> None:
    answer = api.get(container, fields="status_code,status")
    status = str(answer.get("status_code", ""))
    if status == "IN_PROGRESS":
        raise jobs.Snooze(POLL, "Instagram is processing the media")
    if status == "EXPIRED":
        _forget(run)
        raise jobs.Snooze(1, "its container has expired")
    if status == "ERROR":
        _forget(run)
        found = _SUBCODE.search(str(answer.get("status", "")))
        subcode = int(found[0]) if found else 0
        name = f"meta container ERROR{f'/{subcode}' if subcode else ''}"
        raise ProviderError(graph.SUBCODES.get(subcode, "permanent"), name)


def _forget(run: Run) -> None:
    """Begin with a new container next time."""
    gone = {name: None for name in run.row.handle if name == "container" or name[:4] == "item"}
    run.keep(**gone, generation=run.row.handle.get("generation", 1) + 1)


def _status(api: Api, container: str, *, doubtful: bool = False) -> str:
    try:
        return str(api.get(container, fields="status_code").get("status_code", ""))
    except (ProviderError, http.HttpError) as error:
        if doubtful:
            raise Unclear("the container cannot be asked") from error
        raise


def _check_quota(api: Api, user: str) -> None:
    """Wait while the account has used up what Instagram allows in a day."""
    answer = api.get(f"{user}/content_publishing_limit", fields="quota_usage,config")
    for row in rows_of(answer, "data")[:1]:
        total = (row.get("config") or {}).get("quota_total")
        used = row.get("quota_usage")
        if isinstance(total, int) and isinstance(used, int) and used >= total:
            raise ProviderError("later", "meta content_publishing_limit", QUOTA_WAIT)


def _found(run: Run, api: Api, user: str) -> dict[str, str] | None:
    """Return the newest post with this text since the job was made."""
    since = run.row.created_at - EARLY
    for post in graph.each(api, f"{user}/media", fields="id,caption,timestamp"):
        made = moment_of(post.get("timestamp"))
        if made is not None and made < since:
            return None
        if run.content.text and post.get("caption") == run.content.text:
            return {"id": id_of(post)}
    return None


def _permalink(api: Api, remote: str) -> str:
    """Return the link to a post; nothing where Instagram does not tell it now."""
    with suppress(ProviderError, Unclear, http.HttpError, jobs.effects.CircuitOpen):
        if remote:
            return str(api.get(remote, fields="permalink").get("permalink", ""))[:2000]
    return ""


def find_comment(api: Api, media_id: str, message: str) -> dict[str, str] | None:
    """Return an identical comment, looking through all pages."""
    wanted = keys.comment_hash(message)
    for comment in graph.each(api, f"{media_id}/comments", fields="id,text"):
        if keys.comment_hash(str(comment.get("text", ""))) == wanted:
            return {"id": id_of(comment)}
    return None


def _comment(run: Run) -> Published:
    api, content = graph.api_of(run), run.content
    if not run.has_begun and find_comment(api, content.media_id, content.text) is not None:
        return Published("")

    def call() -> Any:
        answer = api.post(f"{content.media_id}/comments", data={"message": content.text})
        return {"id": id_of(answer)}

    def find(intent: effects.Intent) -> effects.Answer:
        known = find_comment(api, content.media_id, content.text)
        return effects.NotHappened() if known is None else effects.Happened(known)

    return Published(str((run.publish(call, find) or {}).get("id", "")))

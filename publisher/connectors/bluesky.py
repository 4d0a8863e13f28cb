"""Bluesky: posts under a key that is chosen before the call, by which they are found again."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from jobs import effects
from publisher import config
from publisher.clock import now
from publisher.connectors import counting
from publisher.connectors.base import (
    Connector,
    Published,
    Run,
    Taken,
    link_faults,
    media_faults,
)
from publisher.connectors.client import Api, bearer
from publisher.connectors.media import fetched
from publisher.content import Content
from publisher.errors import Fault, ProviderError, Unclear

BYTES = 3000
POST = "app.bsky.feed.post"
NOBODY: Mapping[str, str] = {}
EXPIRED = ("ExpiredToken", "InvalidToken", "AuthMissing")
_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"
_HANDLE = re.compile(
    r"(?<![\w@.])@((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*)", re.I
)
_TAG = re.compile(r"(?<!\w)#(\w*[^\W\d]\w*)")


class Bluesky(Connector):
    """Publishes as an account of a server of the AT protocol."""

    limit = 300
    images = Taken(("image/jpeg", "image/png", "image/webp"), 1_000_000)

    def length(self, content: Content) -> int:
        """Return the number of characters that a person sees."""
        return counting.graphemes(content.text)

    def faults(self, content: Content) -> list[Fault]:
        """Return why the server would not take the post."""
        found = self.too_long(content) + link_faults(content)
        found += media_faults(content, 4, ("image",), "Bluesky takes up to 4 images here")
        if (size := len(content.text.encode())) > BYTES:
            found.append(Fault("caption", f"has {size} bytes; the channel takes {BYTES}"))
        if content.media and content.link:
            found.append(Fault("link", "a post with images has no link: write it into the text"))
        if not (content.text.strip() or content.link or content.media):
            found.append(Fault("caption", "the post is empty"))
        return found

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the record, but for its time and its images."""
        return _record(content, {})

    def publish(self, run: Run) -> Published:
        """Publish the post."""
        base = run.account.base_url or config.settings().BLUESKY_URL
        api, repo = Api(run, "bluesky", base, judge, bearer), run.account.remote_account
        if not run.has_begun:
            _resolve(run, api)
        record = _record(run.content, run.row.handle.get("mentions") or {})
        images = [
            {"image": _blob(run, api, number), "alt": media.alt_text}
            for number, media in enumerate(run.content.media)
        ]
        if images:
            record["embed"] = {"$type": "app.bsky.embed.images", "images": images}
        if "rkey" not in run.row.handle:
            run.keep(rkey=new_tid(), created=now().isoformat(timespec="milliseconds"))
        key, created = run.row.handle["rkey"], run.row.handle["created"]

        def call() -> Any:
            whole = {**record, "createdAt": created.replace("+00:00", "Z")}
            body = {"repo": repo, "collection": POST, "rkey": key, "record": whole}
            return {"id": _uri(api.post("xrpc/com.atproto.repo.createRecord", json=body))}

        def find(intent: effects.Intent) -> effects.Answer:
            asked = {"repo": repo, "collection": POST, "rkey": key}
            try:
                found = api.get("xrpc/com.atproto.repo.getRecord", **asked)
            except ProviderError as error:
                if error.code == "bluesky RecordNotFound":
                    return effects.NotHappened()
                raise
            return effects.Happened({"id": _uri(found)})

        remote = str((run.publish(call, find) or {}).get("id", ""))
        return Published(remote, run.link(f"https://bsky.app/profile/{repo}/post/{key}", remote))


def new_tid() -> str:
    """Return a key for a record: the time, and a random number, in digits that sort."""
    number = (int(now().timestamp() * 1_000_000) << 10) | secrets.randbelow(1024)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(60, -1, -5))


def _uri(answer: Any) -> str:
    found = answer.get("uri") if isinstance(answer, dict) else None
    if not isinstance(found, str) or not found.startswith("at://"):
        raise Unclear("the answer has no id")
    return found[:191]


def _resolve(run: Run, api: Api) -> None:
    """Keep whom the text mentions; a handle that nobody has stays text."""
    names = dict.fromkeys(one[1].lower() for one in _HANDLE.finditer(run.content.text))
    if not names or "mentions" in run.row.handle:
        return
    found = {}
    for name in names:
        try:
            answer = api.get("xrpc/com.atproto.identity.resolveHandle", handle=name)
        except ProviderError as error:
            if error.action != "permanent":
                raise
            continue
        if str(answer.get("did", "")).startswith("did:"):
            found[name] = answer["did"]
    run.keep(mentions=found)


def _record(content: Content, mentions: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"$type": POST, "text": content.text}
    if facets := facets_of(content.text, mentions):
        found["facets"] = facets
    if content.link:
        external = {
            "uri": content.link, "title": content.title or content.link, "description": "",
        }  # fmt: skip
        found["embed"] = {"$type": "app.bsky.embed.external", "external": external}
    return found


def facets_of(text: str, mentions: Mapping[str, str] = NOBODY) -> list[dict[str, Any]]:
    """Return the links, mentions and hashtags of a text, at their bytes.

    ``mentions`` are the ids of those whom it mentions, by their handles.
    """
    kind = "app.bsky.richtext.facet#"
    found = [
        (start, end, {"$type": f"{kind}link", "uri": text[start:end]})
        for start, end in counting.links(text, bare=False)
    ]
    spans = [(start, end) for start, end, _ in found]
    for tag in _TAG.finditer(text):
        if not any(start <= tag.start() < end for start, end in spans) and len(tag[1]) <= 64:
            found.append((tag.start(), tag.end(), {"$type": f"{kind}tag", "tag": tag[1]}))
    for name in _HANDLE.finditer(text):
        is_free = not any(start <= name.start() < end for start, end in spans)
        if is_free and (who := mentions.get(name[1].lower())):
            found.append((name.start(), name.end(), {"$type": f"{kind}mention", "did": who}))
    return [
        {
            "index": {
                "byteStart": len(text[:start].encode()), "byteEnd": len(text[:end].encode()),
            },
            "features": [feature],
        }
        for start, end, feature in sorted(found, key=lambda one: one[:2])
    ]  # fmt: skip


def _blob(run: Run, api: Api, number: int) -> Any:
    """Return what the server has returned for an image, which is uploaded once."""
    media, name = run.content.media[number], f"image{number}"
    if name not in run.row.handle:

        def call() -> Any:
            picture = fetched(run.ctx, media.url, Bluesky.images.most)
            headers = {"Content-Type": picture.content_type}
            path = "xrpc/com.atproto.repo.uploadBlob"
            blob = api.post(path, content=picture.data, headers=headers).get("blob")
            if not isinstance(blob, dict):
                raise Unclear("the answer has no blob")
            run.keep(**{name: blob})
            return {}

        run.step(f"{name}:{run.ctx.attempt}", call)
    return run.row.handle[name]


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of the AT protocol means."""
    name = str(body.get("error", ""))[:60]
    if status == 401 or name in EXPIRED:
        return ProviderError("token", f"bluesky {name or status}")
    return ProviderError("retry" if status == 409 else "permanent", f"bluesky {name or status}")

"""TikTok: videos, uploaded in chunks; the last chunk makes TikTok publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import jobs
from jobs import effects
from publisher import config
from publisher.connectors.base import Connector, Published, Run, media_faults
from publisher.connectors.client import Api, bearer
from publisher.connectors.media import Source
from publisher.content import Content
from publisher.errors import Action, Fault, ProviderError, Unclear

CHUNK = 5 * 1024 * 1024
"""TikTok takes chunks of 5 to 64 MB; the last one may be almost twice as large."""
LARGEST = 4 * 1024**3
POLL = 10.0
ACTIONS: dict[str, Action] = {
    "access_token_invalid": "token", "rate_limit_exceeded": "later", "internal_error": "retry",
    "internal": "retry",
}  # fmt: skip
LEVELS = {"public": "PUBLIC_TO_EVERYONE", "private": "SELF_ONLY"}
SENT = {"PROCESSING_UPLOAD", "PROCESSING_DOWNLOAD", "SEND_TO_USER_INBOX", "PUBLISH_COMPLETE"}


class TikTok(Connector):
    """Publishes videos."""

    limit, ratio, left_out = 2200, (0.55, 0.75), ("title", "link")

    def faults(self, content: Content) -> list[Fault]:
        """Return why TikTok would not take the post."""
        words = "TikTok takes one video"
        found = media_faults(content, 1, ("video",), words)
        if not content.media:
            found.append(Fault("media", words))
        found += self.too_long(content)
        if content.link:
            found.append(Fault("link", "TikTok posts have no link"))
        if content.privacy not in LEVELS:
            found.append(Fault("privacy", "is public or private"))
        return found

    def length(self, content: Content) -> int:
        """Return the number of UTF-16 units."""
        return len(content.text.encode("utf-16-le")) // 2

    def preview(self, content: Content) -> dict[str, Any]:
        """Return what TikTok is told of the post."""
        return {"title": content.text, "privacy_level": LEVELS[content.privacy]}

    def publish(self, run: Run) -> Published:
        """Upload the video and wait until TikTok has published it."""
        base = run.account.base_url or config.settings().TIKTOK_URL
        api = Api(run, "tiktok", base, judge, bearer, refusal=refusal)
        source = Source(run.ctx, run.content.media[0].url)
        if not run.has_begun:
            _prepare(run, api, source, self.preview(run.content))
        last, length = _last(run.row.handle["size"])

        def call() -> Any:
            _put(run, api, source, last, length)
            return {"id": run.row.handle["publish_id"]}

        def find(intent: effects.Intent) -> effects.Answer:
            status = _status(run, api)
            name, uploaded = status.get("status"), status.get("uploaded_bytes")
            if name == "PROCESSING_UPLOAD" and isinstance(uploaded, int) and uploaded <= last:
                return effects.NotHappened()
            if name in SENT:
                return effects.Happened({"id": run.row.handle["publish_id"]})
            return effects.Unknown(f"TikTok says {str(name)[:40]}")

        run.publish(call, find)
        remote = _processed(run, api)
        return Published(remote, run.link(_page(run, remote), remote))


def _prepare(run: Run, api: Api, source: Source, post: dict[str, Any]) -> None:
    """Upload everything but the last chunk, from where TikTok has got."""
    if "publish_id" not in run.row.handle:
        _begin(run, api, source, post)
        offset = 0
    else:
        uploaded = _status(run, api).get("uploaded_bytes")
        offset = uploaded if isinstance(uploaded, int) else 0
    last, _ = _last(run.row.handle["size"])
    if offset % CHUNK:
        _forget(run)
        raise ProviderError("retry", "tiktok has a part of a chunk")
    while offset < last:
        run.ctx.checkpoint()
        _put(run, api, source, offset, CHUNK)
        offset += CHUNK


def _begin(run: Run, api: Api, source: Source, post: dict[str, Any]) -> None:
    _meter("creator", run, 20).take()
    options = _data(api.post("v2/post/publish/creator_info/query/", json={}))
    if post["privacy_level"] not in options.get("privacy_level_options", ()):
        raise ProviderError("permanent", "tiktok privacy_level_option_mismatch")
    size = source.size()
    if not 0 < size <= LARGEST:
        raise ProviderError("permanent", "the video is empty or larger than 4 GB")
    chunks = max(size // CHUNK, 1)
    creator = quote(str(options.get("creator_username", ""))[:60])
    body = {
        "post_info": post,
        "source_info": {
            "source": "FILE_UPLOAD", "video_size": size, "chunk_size": min(CHUNK, size),
            "total_chunk_count": chunks,
        },
    }  # fmt: skip

    def call() -> Any:
        _meter("init", run, 6).take()
        data = _data(api.post("v2/post/publish/video/init/", json=body))
        publish_id, url = data.get("publish_id"), data.get("upload_url")
        if not isinstance(publish_id, str) or not isinstance(url, str):
            raise Unclear("the answer has no id")
        run.keep(publish_id=publish_id[:191], upload_url=url, size=size, creator=creator)
        return {"publish_id": publish_id[:191]}

    run.step(f"init:{run.ctx.attempt}", call)


def _meter(name: str, run: Run, number: int) -> jobs.flow.Meter:
    """Return the meter of what TikTok allows an account in a minute."""
    return jobs.meter(f"publisher:tiktok-{name}:{run.account.pk}", f"{number}/m", burst=number)


def _last(size: int) -> tuple[int, int]:
    """Return where the last chunk begins, and its length."""
    start = (max(size // CHUNK, 1) - 1) * CHUNK
    return start, size - start


def _put(run: Run, api: Api, source: Source, start: int, length: int) -> None:
    size = run.row.handle["size"]
    headers = {
        "Content-Type": "video/mp4",
        "Content-Range": f"bytes {start}-{start + length - 1}/{size}",
    }
    with source.portion(start, length, size) as file:
        answer = api.raw("PUT", run.row.handle["upload_url"], headers=headers, content=file)
    if answer.status_code in (403, 404):  # the address is good for an hour
        _forget(run)
        raise ProviderError("retry", "tiktok upload has expired")
    if answer.status_code not in (200, 201, 206):
        raise ProviderError("permanent", f"tiktok upload {answer.status_code}")


def _forget(run: Run) -> None:
    gone = dict.fromkeys(("publish_id", "upload_url", "size", "publishing"))
    run.keep(**gone)


def _status(run: Run, api: Api) -> Mapping[str, Any]:
    body = {"publish_id": run.row.handle["publish_id"]}
    return _data(api.post("v2/post/publish/status/fetch/", json=body))


def _processed(run: Run, api: Api) -> str:
    """Return the id of the post; snooze while TikTok processes the video."""
    status = _status(run, api)
    name = status.get("status")
    if name == "PUBLISH_COMPLETE":
        # Their spelling; it is empty until the post has been moderated.
        ids = status.get("publicaly_available_post_id")
        known = ids[0] if isinstance(ids, list) and ids else run.row.handle["publish_id"]
        return str(known)[:191]
    if name == "FAILED":
        reason = str(status.get("fail_reason", ""))[:60]
        again = run.row.handle.get("again", 1) + 1
        _forget(run)
        run.keep(again=again)
        raise ProviderError(ACTIONS.get(reason, "permanent"), f"tiktok {reason}")
    raise jobs.Snooze(POLL, "TikTok is processing the video")


def _page(run: Run, remote: str) -> str:
    """Return the address of a post; nothing while TikTok has not given its id."""
    creator = run.row.handle.get("creator")
    is_known = bool(creator) and remote.isdigit()
    return f"https://www.tiktok.com/@{creator}/video/{remote}" if is_known else ""


def _data(answer: Any) -> Mapping[str, Any]:
    found = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(found, dict):
        raise Unclear("the answer has no data")
    return found


def refusal(body: Any) -> ProviderError | None:
    """Return the error that an answer with status 200 carries."""
    error = body.get("error") if isinstance(body, dict) else None
    code = str(error.get("code", "")) if isinstance(error, dict) else ""
    return _error(code) if code and code != "ok" else None


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of TikTok means."""
    return refusal(body) or ProviderError("token" if status == 401 else "permanent",
                                          f"tiktok {status}")  # fmt: skip


def _error(code: str) -> ProviderError:
    action = ACTIONS.get(code, "permanent")
    return ProviderError(action, f"tiktok {code[:60]}", 60 if action == "later" else 0)

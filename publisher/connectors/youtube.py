"""YouTube: videos, uploaded in a resumable session; the last portion makes the video exist."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any
from zoneinfo import ZoneInfo

from jobs import effects, http
from publisher import config
from publisher.clock import now
from publisher.connectors.base import Connector, Published, Run, media_faults
from publisher.connectors.client import Api, bearer, id_of
from publisher.connectors.media import Source
from publisher.content import Content
from publisher.errors import Action, Fault, ProviderError, Unclear

TITLE_LIMIT = 100
CHUNK = 8 * 1024 * 1024
"""A multiple of 256 KiB, as YouTube wants it."""
LARGEST = 256 * 1024**3
PACIFIC = ZoneInfo("America/Los_Angeles")
SESSIONS = "upload/youtube/v3/videos"
ACTIONS: dict[str, Action] = {
    "quotaExceeded": "later", "uploadLimitExceeded": "later", "rateLimitExceeded": "retry",
    "userRateLimitExceeded": "retry", "backendError": "retry", "authError": "token",
}  # fmt: skip
_RANGE = re.compile(r"bytes=0-(\d+)\Z")


class YouTube(Connector):
    """Publishes videos."""

    limit, unit, ratio, left_out = 5000, "bytes", (1.7, 1.9), ("link",)

    def faults(self, content: Content) -> list[Fault]:
        """Return why YouTube would not take the video."""
        words = "YouTube takes one video"
        found = media_faults(content, 1, ("video",), words)
        if not content.media:
            found.append(Fault("media", words))
        if not content.title.strip():
            found.append(Fault("title", "a video needs a title"))
        if len(content.title) > TITLE_LIMIT:
            found.append(Fault("title", f"has more than {TITLE_LIMIT} characters"))
        found += self.too_long(content)
        for field, text in (("title", content.title), ("caption", content.text)):
            if "<" in text or ">" in text:
                found.append(Fault(field, "must not contain < or >"))
        if content.link:
            found.append(Fault("link", "write links into the description"))
        return found

    def length(self, content: Content) -> int:
        """Return the number of bytes."""
        return len(content.text.encode())

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the resource that YouTube is sent."""
        snippet = {"title": content.title, "description": content.text}
        return {"snippet": snippet, "status": {"privacyStatus": content.privacy}}

    def publish(self, run: Run) -> Published:
        """Upload the video."""
        base = run.account.base_url or config.settings().YOUTUBE_URL
        api = Api(run, "youtube", base, judge, bearer)
        source = Source(run.ctx, run.content.media[0].url)
        offset = None
        if not run.has_begun:
            offset = _prepare(run, api, source, self.preview(run.content))

        def call() -> Any:
            start = offset if offset is not None else _offset(run, api)
            if isinstance(start, dict):
                return start
            answer = _put(run, api, source, start, run.row.handle["size"] - start)
            return _video(answer)

        def find(intent: effects.Intent) -> effects.Answer:
            answer = _ask(run, api)
            if answer.status_code == 404:
                return effects.Unknown("its upload session is gone")
            found = _reached(run, answer)
            return effects.Happened(found) if isinstance(found, dict) else effects.NotHappened()

        remote = str((run.publish(call, find) or {}).get("id", ""))
        return Published(remote, run.link(f"https://www.youtube.com/watch?v={remote}", remote))


def _prepare(run: Run, api: Api, source: Source, body: dict[str, Any]) -> int:
    """Upload everything but the last portion, from where YouTube has got; return where it is."""
    offset: int | dict[str, Any] = 0
    if "session" not in run.row.handle:
        _begin(run, api, source, body)
    else:
        offset = _offset(run, api)
    size: int = run.row.handle["size"]
    if isinstance(offset, dict):  # the whole video is there: the publishing step finds it
        return size
    while size - offset > CHUNK:
        run.ctx.checkpoint()
        answer = _put(run, api, source, offset, CHUNK)
        if answer.status_code != 308:
            raise Unclear(f"status {answer.status_code} in the middle of an upload")
        offset = _received(answer)
    return offset


def _begin(run: Run, api: Api, source: Source, body: dict[str, Any]) -> None:
    size = source.size()
    if not 0 < size <= LARGEST:
        raise ProviderError("permanent", "the video is empty or larger than 256 GB")

    def call() -> Any:
        answer = api.opened(
            SESSIONS, params={"uploadType": "resumable", "part": "snippet,status"}, json=body,
            headers={"X-Upload-Content-Length": str(size), "X-Upload-Content-Type": "video/*"},
        )  # fmt: skip
        session = answer.headers.get("Location", "")
        if not session:
            raise Unclear("the answer has no session")
        run.keep(session=session, size=size)
        return {}

    run.step(f"session:{run.ctx.attempt}", call)


def _put(run: Run, api: Api, source: Source, start: int, length: int) -> http.Response:
    size = run.row.handle["size"]
    where = f"bytes {start}-{start + length - 1}/{size}" if length else f"bytes */{size}"
    headers = {"Content-Range": where, "Content-Type": "video/*"}
    url = run.row.handle["session"]
    with source.portion(start, length, size) if length else BytesIO() as data:
        answer = api.raw("PUT", url, headers=headers, content=data, sign=True)
    if answer.status_code == 404:  # the session is gone, and its bytes with it
        run.keep(session=None, size=None, publishing=None)
        raise ProviderError("retry", "youtube session is gone")
    if answer.status_code not in (200, 201, 308):
        raise judge(answer.status_code, _json(answer))
    return answer


def _offset(run: Run, api: Api) -> int | dict[str, Any]:
    """Return how many bytes YouTube has, or the video if it has them all."""
    return _reached(run, _ask(run, api))


def _ask(run: Run, api: Api) -> http.Response:
    headers = {"Content-Range": f"bytes */{run.row.handle['size']}"}
    return api.raw("PUT", run.row.handle["session"], headers=headers, content=b"", sign=True)


def _reached(run: Run, answer: http.Response) -> int | dict[str, Any]:
    if answer.status_code == 308:
        return _received(answer)
    if answer.status_code == 404:
        run.keep(session=None, size=None, publishing=None)
        raise ProviderError("retry", "youtube session is gone")
    if answer.status_code not in (200, 201):
        raise judge(answer.status_code, _json(answer))
    return _video(answer)


def _received(answer: http.Response) -> int:
    found = _RANGE.match(answer.headers.get("Range", ""))
    return int(found[1]) + 1 if found else 0


def _video(answer: http.Response) -> dict[str, str]:
    if answer.status_code == 308:
        raise Unclear("YouTube has not got all of the video")
    return {"id": id_of(_json(answer))}


def _json(answer: http.Response) -> Any:
    try:
        return json.loads(answer.content)
    except ValueError:
        return {}


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of YouTube means."""
    raw = body.get("error") if isinstance(body, dict) else None
    error: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    rows = error.get("errors")
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    reason = str(first.get("reason", ""))[:60]
    name = f"youtube {reason or status}"
    action = ACTIONS.get(reason, "token" if status == 401 else "permanent")
    if status == 409:
        action = "retry"
    if reason == "uploadLimitExceeded":
        return ProviderError("later", name, 86_400)
    if action == "later":  # the quota is that of the project, for all its accounts
        return ProviderError(action, name, _until_midnight(now()), "kind")
    return ProviderError(action, name)


def _until_midnight(moment: datetime) -> float:
    """Return the seconds until the quota is renewed, at midnight Pacific time."""
    local = moment.astimezone(PACIFIC)
    midnight = datetime.combine(local.date() + timedelta(days=1), datetime.min.time(), PACIFIC)
    return (midnight - moment).total_seconds()

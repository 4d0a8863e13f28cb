"""YouTube: videos in resumable sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

UNIT = 256 * 1024
SNIPPET = {"title", "description", "tags", "categoryId", "defaultLanguage"}
STATUS = {"privacyStatus", "publishAt", "selfDeclaredMadeForKids"}
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)\Z")


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the upload of videos."""
    if request.token in standin.expired or not request.token:
        return refuse(401, "authError")
    if request.path == "upload/youtube/v3/videos" and request.query.get("uploadType"):
        return _session(standin, request)
    if request.path == "youtube/v3/channels":
        return 200, {"items": [{"id": "UC1", "snippet": {"title": "Bakery"}}]}
    upload = standin.uploads.get(request.path.removeprefix("session/"))
    return _part(standin, upload, request) if upload else refuse(404, "notFound")


def refuse(status: int, reason: str) -> Answer:
    """Return an error as YouTube writes it."""
    return status, {"error": {"code": status, "errors": [{"reason": reason}]}}


def _session(standin: Standin, request: Request) -> Answer:
    body, size = request.body, request.headers.get("X-Upload-Content-Length", "")
    if set(body.get("snippet", {})) - SNIPPET or set(body.get("status", {})) - STATUS:
        return refuse(400, "invalidMetadata")
    made = standin.next_id()
    standin.uploads[made] = {"size": int(size), "got": 0, "video": None, **body}
    return 200, None, {"Location": f"{standin.url}/youtube/session/{made}"}


def _part(standin: Standin, upload: dict[str, Any], request: Request) -> Answer:
    found = _RANGE.match(request.headers.get("Content-Range", ""))
    if found is None or int(found[3]) != upload["size"]:
        return refuse(400, "badRequest")
    if upload["video"] is not None:
        return 200, upload["video"]
    if found[1] is not None:
        first, last = int(found[1]), int(found[2])
        is_last = last + 1 == upload["size"]
        if first != upload["got"] or len(request.raw) != last - first + 1:
            return refuse(400, "badRequest")
        if not is_last and len(request.raw) % UNIT:
            return refuse(400, "badRequest")
        standin.check_media(first, request.raw)
        upload["got"] = last + 1
        if is_last:
            video = {"id": f"yt{standin.next_id()}", "snippet": upload["snippet"]}
            upload["video"] = video
            standin.posts["youtube"].insert(0, video)
            return 200, video
    reached = {"Range": f"bytes=0-{upload['got'] - 1}"} if upload["got"] else {}
    return 308, None, reached

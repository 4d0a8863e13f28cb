"""TikTok: videos in chunks, which take a while to be processed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from config.standins.publisher import consents

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

MB = 1024 * 1024
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)\Z")


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the posting API."""
    if request.path.startswith("upload/"):
        return _chunk(standin, request)
    if request.path == "v2/oauth/token/":
        return _token(standin, request)
    if request.token in standin.expired or not request.token:
        return refuse("access_token_invalid", status=401)
    if request.path == "v2/user/info/":
        return ok({"user": {"open_id": "bakery-tiktok", "display_name": "Bakery"}})
    if request.path == "v2/post/publish/creator_info/query/":
        options = ["PUBLIC_TO_EVERYONE", "SELF_ONLY"]
        about = {"creator_username": "bakery", "max_video_post_duration_sec": 600}
        return ok({"privacy_level_options": options, **about})
    if request.path == "v2/post/publish/video/init/":
        return _init(standin, request)
    if request.path == "v2/post/publish/status/fetch/":
        return _status(standin, str(request.body.get("publish_id", "")))
    return refuse("invalid_params", status=404)


def ok(data: dict[str, Any]) -> Answer:
    """Return data as TikTok writes it."""
    return 200, {"data": data, "error": {"code": "ok", "message": "", "log_id": "1"}}


def refuse(code: str, *, status: int = 400) -> Answer:
    """Return an error as TikTok writes it."""
    return status, {"data": {}, "error": {"code": code, "message": "refused", "log_id": "1"}}


def _init(standin: Standin, request: Request) -> Answer:
    post, source = request.body.get("post_info", {}), request.body.get("source_info", {})
    if set(post) - {"title", "privacy_level", "disable_comment", "disable_duet", "disable_stitch"}:
        return refuse("invalid_params")
    size, chunk = source.get("video_size", 0), source.get("chunk_size", 0)
    is_whole = size < 5 * MB and chunk == size
    if not is_whole and not 5 * MB <= chunk <= 64 * MB:
        return refuse("invalid_params")
    if source.get("total_chunk_count") != max(size // chunk, 1):
        return refuse("invalid_params")
    made = f"v_pub_file~{standin.next_id()}"
    standin.uploads[made] = {"size": size, "got": 0, "post": post, "polls": standin.polls,
                             "status": "PROCESSING_UPLOAD"}  # fmt: skip
    url = f"{standin.url}/tiktok/upload/{made}"
    return ok({"publish_id": made, "upload_url": url})


def _chunk(standin: Standin, request: Request) -> Answer:
    upload = standin.uploads.get(request.path.removeprefix("upload/"))
    found = _RANGE.match(request.headers.get("Content-Range", ""))
    if upload is None or found is None:
        return 404, {}
    first, last, size = map(int, found.groups())
    if first != upload["got"] or size != upload["size"] or len(request.raw) != last - first + 1:
        return 416, {}
    if last + 1 < size and len(request.raw) < 5 * MB:
        return 400, {}
    standin.check_media(first, request.raw)
    upload["got"] = last + 1
    if upload["got"] < size:
        return 206, {}
    upload["status"] = "PROCESSING_DOWNLOAD"
    made = {"id": request.path.removeprefix("upload/"), "title": upload["post"].get("title", "")}
    standin.posts["tiktok"].insert(0, made)
    return 201, {}


def _status(standin: Standin, publish_id: str) -> Answer:
    upload = standin.uploads.get(publish_id)
    if upload is None:
        return refuse("invalid_publish_id")
    found: dict[str, Any] = {"uploaded_bytes": upload["got"]}
    if upload["status"] == "PROCESSING_DOWNLOAD":
        if standin.fails:
            upload["status"] = "FAILED"
            standin.posts["tiktok"].pop(0)
        elif upload["polls"] > 0:
            upload["polls"] -= 1
        else:
            upload["status"] = "PUBLISH_COMPLETE"
    if upload["status"] == "FAILED":
        found["fail_reason"] = standin.fails
    return ok({**found, "status": upload["status"], "publicaly_available_post_id": []})


def _token(standin: Standin, request: Request) -> Answer:
    if request.body.get("grant_type") == "authorization_code":
        is_good = consents.is_good(standin, request.body)
    else:
        token = str(request.body.get("refresh_token", ""))
        is_good = standin.refreshes.pop(token, None) is not None
    if not is_good:
        return 200, {"error": "invalid_grant", "error_description": "refused"}
    number = standin.next_id()
    standin.refreshes[f"refresh-{number}"] = f"token-{number}"
    return 200, {"access_token": f"token-{number}", "refresh_token": f"refresh-{number}",
                 "expires_in": 86400}  # fmt: skip

"""X: posts, uploads in parts, and tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from config.standins.publisher import tokens

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

LINK = re.compile(r"https?://\S+")


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the API."""
    if request.path == "2/oauth2/token":
        return tokens.answer(standin, request, "invalid_request")
    if request.token in standin.expired or not request.token:
        return refuse(401, "Unauthorized")
    if request.path == "2/users/me":
        return 200, {"data": {"id": "7", "name": "Bakery", "username": "bakery"}}
    if request.path.startswith("2/media/"):
        return _media(standin, request)
    if request.method == "GET" and request.path.endswith("/tweets"):
        user = request.path.split("/")[2]
        return 200, {"data": standin.posts["x"][:100], "meta": {"newest_id": user}}
    if request.path != "2/tweets":
        return refuse(404, "Not Found")
    text = str(request.body.get("text", ""))
    if set(request.body) - {"text", "media"}:
        return refuse(400, "One or more parameters to your request was invalid.")
    ids = (request.body.get("media") or {}).get("media_ids", [])
    if any(not standin.containers.get(one, {}).get("is_whole") for one in ids):
        return refuse(400, "Your media IDs are invalid.")
    if any(post["written"] == text for post in standin.posts["x"]):
        return refuse(403, "You are not allowed to create a Tweet with duplicate content.")
    number = standin.next_id()
    urls = [
        {"url": f"https://t.co/{number}{n}", "expanded_url": found[0]}
        for n, found in enumerate(LINK.finditer(text))
    ]
    shown = text
    for one in urls:
        shown = shown.replace(one["expanded_url"], one["url"])
    made = {
        "id": number, "text": shown.replace("&", "&amp;"), "entities": {"urls": urls},
        "created_at": standin.now(), "written": text, "media": ids,
    }  # fmt: skip
    standin.posts["x"].insert(0, made)
    return 201, {"data": {"id": number, "text": shown}}


def _media(standin: Standin, request: Request) -> Answer:
    if request.path == "2/media/upload/initialize":
        made = standin.next_id()
        standin.containers[made] = {
            "size": request.body["total_bytes"], "got": 0, "is_whole": False,
            "polls": standin.polls, "next": 0,
        }  # fmt: skip
        return 200, {"data": {"id": made, "expires_after_secs": 86400}}
    if request.path == "2/media/metadata":
        return 200, {"data": {"id": request.body.get("id")}}
    if request.method == "GET":
        return _status(standin.containers[request.query["media_id"]], request.query["media_id"])
    name, _, step = request.path.removeprefix("2/media/upload/").partition("/")
    upload = standin.containers[name]
    if step == "append":
        if request.parts.get("segment_index") != str(upload["next"]).encode():
            return refuse(400, "Segments do not add up.")
        upload["next"] += 1
        upload["got"] += len(request.parts["media"])
        return 204, None
    if upload["got"] != upload["size"]:
        return refuse(400, "The size does not match.")
    upload["is_whole"] = True
    return 200, {"data": {"id": name, "processing_info": {"state": "pending"}}}


def _status(upload: dict[str, Any], name: str) -> Answer:
    upload["polls"] -= 1
    state = "in_progress" if upload["polls"] >= 0 else "succeeded"
    return 200, {"data": {"id": name, "processing_info": {"state": state}}}


def refuse(status: int, detail: str) -> Answer:
    """Return an error as X writes it."""
    return status, {"title": "refused", "type": "about:blank", "status": status, "detail": detail}

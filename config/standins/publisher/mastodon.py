"""A Mastodon server: statuses by their keys, and media that take a while."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

FIELDS = {"status", "media_ids", "visibility", "language", "spoiler_text", "sensitive"}


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the API."""
    if request.path == "api/v2/instance":
        statuses = {"max_characters": standin.longest, "characters_reserved_per_url": 23}
        return 200, {"configuration": {"statuses": statuses}}
    if request.token in standin.expired or not request.token:
        return 401, {"error": "The access token is invalid"}
    if request.path == "api/v1/accounts/verify_credentials":
        return 200, {"id": "1", "username": "bakery"}
    if request.path == "api/v1/accounts/1/statuses":
        return 200, standin.posts["mastodon"][: int(request.query.get("limit", 20))]
    if request.path == "api/v2/media":
        made = standin.next_id()
        standin.containers[made] = {"polls": standin.polls, "size": len(request.parts["file"])}
        return 202, {"id": made, "url": None}
    if request.path.startswith("api/v1/media/"):
        name = request.path.removeprefix("api/v1/media/")
        standin.containers[name]["polls"] -= 1
        is_done = standin.containers[name]["polls"] < 0
        return (200 if is_done else 206), {"id": name, "url": standin.url if is_done else None}
    if request.path != "api/v1/statuses":
        return 404, {"error": "Record not found"}
    return _post(standin, request)


def _post(standin: Standin, request: Request) -> Answer:
    body, key = request.body, request.headers.get("Idempotency-Key", "")
    for post in standin.posts["mastodon"]:
        if key and post["key"] == key:
            return 200, post
    text, ids = str(body.get("status", "")), body.get("media_ids", [])
    if set(body) - FIELDS or not (text or ids):
        return 422, {"error": "Validation failed: Text can't be blank"}
    if len(text) > standin.longest + 1000:
        return 422, {"error": "Validation failed: Text character limit exceeded"}
    if any(standin.containers.get(one, {"polls": 0})["polls"] >= 0 for one in ids):
        return 422, {"error": "Cannot attach files that have not finished processing"}
    made = standin.next_id()
    post = {
        "id": made, "url": standin.page_of(made), "created_at": standin.now(), "key": key,
        "content": f"<p>{html.escape(text)}</p>".replace("\n\n", "</p><p>"), "media": ids,
        "text": text, "visibility": body.get("visibility", "public"),
    }  # fmt: skip
    standin.posts["mastodon"].insert(0, post)
    return 200, post

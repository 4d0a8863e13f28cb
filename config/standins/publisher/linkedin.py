"""LinkedIn: posts, images, and tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from config.standins.publisher import consents, tokens

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

FIELDS = {
    "author", "commentary", "visibility", "distribution", "lifecycleState",
    "isReshareDisabledByAuthor", "content",
}  # fmt: skip
_BARE = re.compile(r"(?<!\\)[|{}@\[\]()<>*_~]")


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the API."""
    if request.path == "oauth/v2/authorization":
        return consents.answer(standin, request)
    if request.path == "oauth/v2/accessToken":
        return tokens.answer(standin, request)
    if request.token in standin.expired or not request.token:
        return refuse(401, "REVOKED_ACCESS_TOKEN", "The token used in the request has been revoked")
    if request.path == "v2/userinfo":
        return 200, {"sub": "7", "name": "Bea Baker"}
    if request.path == "rest/organizationAcls":
        return 200, {"elements": [{"organization": "urn:li:organization:7"}]}
    if request.path.startswith("upload/"):
        standin.containers[unquote(request.path.removeprefix("upload/"))]["size"] = len(request.raw)
        return 201, None
    if not re.fullmatch(r"20\d{4}", request.headers.get("LinkedIn-Version", "")):
        return refuse(426, "NONEXISTENT_VERSION", "Requested version is not active")
    if request.path == "rest/images" and request.query.get("action") == "initializeUpload":
        urn = f"urn:li:image:{standin.next_id()}"
        standin.containers[urn] = {"size": 0, "polls": standin.polls}
        url = f"{standin.url}/linkedin/upload/{urn}"
        return 200, {"value": {"uploadUrl": url, "image": urn}}
    if request.path.startswith("rest/images/"):
        return _status(standin, unquote(request.path.removeprefix("rest/images/")))
    if request.path != "rest/posts":
        return refuse(404, "NOT_FOUND", "No virtual resource found")
    if request.method == "GET":
        author = request.query.get("author", "")
        return 200, {
            "elements": [one for one in standin.posts["linkedin"] if one["author"] == author]
        }
    return _post(standin, request)


def _status(standin: Standin, urn: str) -> Answer:
    image = standin.containers[urn]
    if not image["size"]:
        return 200, {"id": urn, "status": "WAITING_UPLOAD"}
    image["polls"] -= 1
    return 200, {"id": urn, "status": "PROCESSING" if image["polls"] >= 0 else "AVAILABLE"}


def _post(standin: Standin, request: Request) -> Answer:
    body = request.body
    text = str(body.get("commentary", ""))
    if set(body) - FIELDS or len(text.replace("\\", "")) > 3000:
        return refuse(422, "INVALID_FIELD", "unpermitted fields present")
    # The text ends at the first reserved character.
    shown = _BARE.split(text)[0]
    for post in standin.posts["linkedin"]:
        if post["commentary"] == shown and post["author"] == body["author"] and shown:
            words = f"Content is a duplicate of {post['id']}"
            return refuse(422, "DUPLICATE_POST", words)
    content = body.get("content", {})
    images = content.get("multiImage", {}).get("images") or [content.get("media", {"id": ""})]
    if any(one["id"] and not standin.containers.get(one["id"]) for one in images):
        return refuse(422, "INVALID_FIELD", "the image is not available")
    made: dict[str, Any] = {
        **body, "id": f"urn:li:share:{standin.next_id()}", "commentary": shown,
        "createdAt": standin.milliseconds(),
    }  # fmt: skip
    standin.posts["linkedin"].insert(0, made)
    return 201, None, {"x-restli-id": made["id"]}


def refuse(status: int, code: str, message: str) -> Answer:
    """Return an error as LinkedIn writes it."""
    return status, {"status": status, "code": code, "message": message}

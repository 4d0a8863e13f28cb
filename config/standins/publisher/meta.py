"""Facebook pages and Instagram, as far as the Graph API lets an app publish there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from config.standins.publisher import consents, media

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

EDGES = {
    "feed": {"message", "link"},
    "photos": {"url", "caption", "alt_text_custom"},
    "videos": {"file_url", "description"},
    "media": {
        "image_url", "video_url", "caption", "media_type", "is_carousel_item", "children",
        "alt_text",
    },
    "media_publish": {"creation_id"},
    "comments": {"message"},
}  # fmt: skip
"""The fields that each edge takes; any other is refused."""
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
VIDEOS = ("video/mp4", "video/quicktime")
TEXT = {"feed": "message", "photos": "caption", "videos": "description"}
PAGE = 2


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the Graph API."""
    if request.path == "oauth/access_token":
        return _exchange(standin, {**request.query, **request.body})
    if request.token in standin.expired or not request.token:
        return refuse(190, "Error validating access token", status=401)
    owner, _, edge = request.path.partition("/")
    if request.path == "me/accounts":
        user = {"id": "17", "username": "bakery"}
        pages = [
            {"id": "page", "name": "Bakery", "access_token": "page-token",
             "instagram_business_account": user},
            {"id": "page-2", "name": "Café", "access_token": "page-token-2"},
        ]  # fmt: skip
        return 200, {"data": pages}
    if request.method == "GET":
        return _read(standin, owner, edge, request.query)
    if unknown := set(request.body) - EDGES.get(edge, set()):
        return refuse(100, f"Invalid parameter {sorted(unknown)[0]}")
    if edge in TEXT:
        return _post(standin, owner, edge, request.body)
    if edge == "media":
        return _container(standin, request.body)
    if edge == "media_publish":
        return _publish(standin, owner, str(request.body.get("creation_id", "")))
    if edge == "comments":
        made = {"id": standin.next_id(), "text": request.body["message"]}
        standin.comments[owner].append(made)
        return 200, {"id": made["id"]}
    return refuse(100, "Unsupported post request")


def refuse(code: int, message: str, *, subcode: int = 0, status: int = 400) -> Answer:
    """Return an error as the Graph API writes it."""
    more = {"error_subcode": subcode} if subcode else {}
    return status, {"error": {"message": message, "type": "OAuthException", "code": code, **more}}


def _exchange(standin: Standin, query: dict[str, str]) -> Answer:
    """Exchange a token that is good for another one."""
    if query.get("grant_type") == "authorization_code" and query.get("client_secret") == "of-us":
        if not consents.is_good(standin, query):
            return refuse(100, "This authorization code has been used.")
        return 200, {"access_token": f"token-{standin.next_id()}", "token_type": "bearer"}
    if query.get("grant_type") != "fb_exchange_token":
        return refuse(100, "Invalid grant_type")
    if query.get("client_secret") != "of-us":
        return refuse(1, "Error validating client secret")
    if query.get("fb_exchange_token", "") in {"", *standin.expired}:
        return refuse(190, "Error validating access token")
    made = f"token-{standin.next_id()}"
    return 200, {"access_token": made, "token_type": "bearer", "expires_in": 5_184_000}


def _post(standin: Standin, page: str, edge: str, body: dict[str, Any]) -> Answer:
    text = body.get(TEXT[edge], "")
    if text and any(post.get("message") == text for post in standin.posts[page]):
        return refuse(506, "Duplicate status message")
    url = body.get("url", body.get("file_url", ""))
    if url and not media.is_fetched(standin, url, IMAGES if edge == "photos" else VIDEOS):
        return refuse(324, "Missing or invalid media file")
    made = {
        "id": f"{page}_{standin.next_id()}", "message": text, "created_time": standin.now(),
        "media_url": url,
    }  # fmt: skip
    standin.posts[page].insert(0, made)
    key = "post_id" if edge == "photos" else "id"
    return 200, {"id": made["id"], key: made["id"]}


def _container(standin: Standin, body: dict[str, Any]) -> Answer:
    if not {"image_url", "video_url", "children"} & set(body):
        return refuse(100, "Only photo or video can be accepted", subcode=2207003)
    children = str(body.get("children", "")).split(",") if body.get("children") else []
    if any(child not in standin.containers for child in children):
        return refuse(100, "Invalid children")
    # Instagram takes no image but JPEG.
    for name, types in (("image_url", IMAGES[:1]), ("video_url", VIDEOS)):
        if name in body and not media.is_fetched(standin, body[name], types):
            return refuse(9004, "The media could not be fetched from this URI", subcode=2207052)
    made = standin.next_id()
    standin.containers[made] = {"polls": standin.polls, "status": "", **body}
    return 200, {"id": made}


def _status(standin: Standin, container: dict[str, Any]) -> str:
    if container["status"]:
        return str(container["status"])
    if container["polls"] > 0:
        container["polls"] -= 1
        return "IN_PROGRESS"
    return "ERROR" if standin.fails else "FINISHED"


def _publish(standin: Standin, user: str, creation: str) -> Answer:
    container = standin.containers.get(creation)
    if container is None:
        return refuse(100, "Invalid creation_id")
    if container["status"] == "PUBLISHED" or container["polls"] > 0:
        return refuse(9007, "Media ID is not available", subcode=2207027)
    container["status"] = "PUBLISHED"
    made = {
        "id": standin.next_id(), "caption": container.get("caption", ""),
        "timestamp": standin.now(), "type": container.get("media_type", "IMAGE"),
        "media_url": container.get("image_url", container.get("video_url", "")),
    }  # fmt: skip
    standin.posts[user].insert(0, made)
    return 200, {"id": made["id"]}


def _read(standin: Standin, owner: str, edge: str, query: dict[str, str]) -> Answer:
    if edge in ("feed", "media"):
        return 200, _page(standin.posts[owner], query)
    if edge == "comments":
        return 200, _page(standin.comments[owner], query)
    if edge == "content_publishing_limit":
        used, total = standin.quota
        config = {"quota_total": total, "quota_duration": 86400}
        return 200, {"data": [{"quota_usage": used + len(standin.posts[owner]), "config": config}]}
    if owner in standin.containers:
        status = _status(standin, standin.containers[owner])
        words = f"{status}: {standin.fails}" if status == "ERROR" else status
        return 200, {"id": owner, "status_code": status, "status": words}
    return 200, {"id": owner, "permalink": standin.page_of(owner)}


def _page(rows: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    first = int(query.get("after", 0))
    found: dict[str, Any] = {"data": rows[first : first + PAGE]}
    if first + PAGE < len(rows):
        found["paging"] = {"cursors": {"after": str(first + PAGE)}, "next": "https://next.test/"}
    return found

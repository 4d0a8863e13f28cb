"""Google Business Profile, and Google's tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.standins.publisher import consents, media

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

FIELDS = {"languageCode", "summary", "topicType", "callToAction", "media"}
PHOTOS = ("image/jpeg", "image/png")
TOPICS = {"STANDARD", "EVENT", "OFFER", "ALERT"}


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the posts of a location."""
    if request.token in standin.expired or not request.token:
        return refuse(401, "UNAUTHENTICATED")
    if request.path == "v1/accounts":
        return 200, {"accounts": [{"name": "accounts/1"}]}
    if request.path == "v1/accounts/1/locations":
        found = [{"name": f"locations/{n}", "title": f"Bakery {n}"} for n in (1, 2)]
        return 200, {"locations": found}
    if not request.path.endswith("/localPosts"):
        return refuse(404, "NOT_FOUND")
    location = request.path.removeprefix("v4/").removesuffix("/localPosts")
    posts = standin.posts[location]
    if request.method == "GET":
        first = int(request.query.get("pageToken", 0))
        more = {"nextPageToken": str(first + 2)} if first + 2 < len(posts) else {}
        return 200, {"localPosts": posts[first : first + 2], **more}
    if set(request.body) - FIELDS or request.body.get("topicType") not in TOPICS:
        return refuse(400, "INVALID_ARGUMENT")
    photos = [str(one.get("sourceUrl", "")) for one in request.body.get("media", [])]
    if not all(media.is_fetched(standin, url, PHOTOS) for url in photos):
        return refuse(400, "INVALID_ARGUMENT")
    name = f"{location}/localPosts/{standin.next_id()}"
    made = {
        **request.body, "name": name, "state": "LIVE", "createTime": standin.now(),
        "searchUrl": standin.page_of(name),
    }  # fmt: skip
    posts.insert(0, made)
    return 200, made


def refuse(status: int, name: str) -> Answer:
    """Return an error as Google writes it."""
    return status, {"error": {"code": status, "message": "refused", "status": name}}


def token(standin: Standin, request: Request) -> Answer:
    """Exchange a refresh token, which is good once, for new tokens."""
    old = str(request.body.get("refresh_token", ""))
    if standin.refuses_client:
        return 401, {"error": "invalid_client"}
    if request.body.get("grant_type") == "authorization_code":
        if not consents.is_good(standin, request.body):
            return 400, {"error": "invalid_grant"}
    elif standin.refreshes.pop(old, None) is None:
        return 400, {"error": "invalid_grant"}
    number = standin.next_id()
    found = {"access_token": f"token-{number}", "expires_in": 3600, "token_type": "Bearer"}
    if standin.keeps_refresh:
        standin.refreshes[old] = found["access_token"]  # type: ignore[assignment]
        return 200, found
    standin.refreshes[f"refresh-{number}"] = str(found["access_token"])
    return 200, {**found, "refresh_token": f"refresh-{number}"}

"""A WordPress blog with application passwords."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

FIELDS = {
    "title", "content", "excerpt", "slug", "status", "date_gmt", "categories", "tags",
    "featured_media", "meta",
}  # fmt: skip


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the posts of the blog."""
    if request.token in standin.expired or not request.token:
        return refuse(401, "incorrect_password")
    if request.path != "wp-json/wp/v2/posts":
        return refuse(404, "rest_no_route")
    posts = standin.posts["blog"]
    if request.method == "GET":
        slug = request.query.get("slug", "")
        return 200, [post for post in posts if post["slug"] == slug]
    if set(request.body) - FIELDS:
        return refuse(400, "rest_invalid_param")
    number = int(standin.next_id())
    slug = str(request.body.get("slug", number))
    taken = {post["slug"] for post in posts}
    # A slug that is taken gets a number, as WordPress does.
    slug = next(s for s in (slug, *(f"{slug}-{n}" for n in range(2, 99))) if s not in taken)
    made = {"id": number, "slug": slug, "link": standin.page_of(str(number)), **request.body}
    posts.insert(0, {**made, "slug": slug})
    return 201, made


def refuse(status: int, code: str) -> Answer:
    """Return an error as WordPress writes it."""
    return status, {"code": code, "message": "refused", "data": {"status": status}}

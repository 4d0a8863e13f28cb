"""Accounts and posts for tests."""

from __future__ import annotations

from typing import Any

from publisher import services
from publisher.content import Content
from publisher.models import Account, Brand, Channel

IMAGE = {"url": "https://media.acme.test/a.jpg", "kind": "image"}
VIDEO = {"url": "https://media.acme.test/a.mp4", "kind": "video"}
PLACES = {
    "meta_facebook": ("graph", "page"), "meta_instagram": ("graph", "user"),
    "meta_instagram_stories": ("graph", "user"), "google_business": ("google", "accounts/1/loc/2"),
    "wordpress_blog": ("blog", "editor"), "tiktok": ("tiktok", "tiktok"),
    "youtube": ("youtube", "youtube"), "linkedin": ("linkedin", "urn:li:organization:7"),
    "x": ("x", "7"), "mastodon": ("mastodon", "bakery"), "bluesky": ("bluesky", "bakery.test"),
}  # fmt: skip
"""The service of the stand-in, and the id of the account there."""
POSTED = {
    **{name: place for name, (_, place) in PLACES.items()}, "wordpress_blog": "blog",
    **{name: name for name in ("linkedin", "x", "mastodon", "bluesky")},
}  # fmt: skip
"""Where the stand-in keeps the posts of a channel."""


origin = ""
"""The address of the stand-in, which serves media as well."""


ROTATING = ("google", "tiktok", "youtube", "linkedin", "x")
"""Services whose refresh tokens are good once."""


def video(size: int = 300_000) -> dict[str, str]:
    """A video of this size, at the stand-in."""
    return {"url": f"{origin}/media/{size}.mp4", "kind": "video"}


def accounts(brand: Brand, url: str, suffix: str = "") -> dict[str, Account]:
    """An account on every channel, at the stand-in."""
    global origin
    origin = url
    found = {}
    for channel, (service, place) in PLACES.items():
        token = f"token-0{suffix}-{channel}" if suffix else "token-0"
        refresh = "refresh-1" if service in ROTATING else ""
        found[channel] = Account.objects.create(
            brand=brand, tenant=brand.tenant, channel=channel, name=f"{brand.name} {channel}",
            remote_account=place + suffix, base_url=f"{url}/{service}",
            **services.credentials(channel, token, refresh),
        )  # fmt: skip
    return found


def post(channel: str, text: str = "Fresh bread from seven", **fields: Any) -> Content:
    """A post that the channel takes."""
    given: dict[str, Any] = {"caption": text}
    if channel == Channel.WORDPRESS_BLOG:
        given["title"] = "Bread"
    if channel in (Channel.TIKTOK, Channel.YOUTUBE):
        given |= {"media": [video()], **({"title": "Bread"} if channel == "youtube" else {})}
    if channel == Channel.META_INSTAGRAM:
        given["media"] = [IMAGE]
    if channel == Channel.META_INSTAGRAM_STORIES:
        given = {"media": [IMAGE]}
    return Content.model_validate({**given, **fields})


def mark_of(number: int) -> str:
    """What tells a post from all others, wherever it appears."""
    return f"post-{number:05}-"


def unique(name: str, number: int, size: int = 300_000) -> Content:
    """A post that is known by its mark: by its text, or by its media.

    ``meta_facebook video`` is one that a page's feed does not show for certain.
    """
    mark = mark_of(number)
    channel, _, kind = name.partition(" ")
    if kind:
        media = {**VIDEO, "url": f"https://media.acme.test/{mark}.mp4"}
        return post(channel, "", media=[media])
    more: dict[str, Any] = {}
    if channel in (Channel.TIKTOK, Channel.YOUTUBE):
        more["media"] = [video(size)]
    if channel == Channel.META_INSTAGRAM_STORIES:
        more["media"] = [{**IMAGE, "url": f"https://media.acme.test/{mark}.jpg"}]
    return post(channel, f"Fresh bread {mark}", **more)

"""The connectors, by channel: what a post needs, its preview, and the calls that publish it."""

from __future__ import annotations

from publisher.connectors import (
    bluesky,
    facebook,
    google_business,
    instagram,
    linkedin,
    mastodon,
    tiktok,
    wordpress,
    x,
    youtube,
)
from publisher.connectors.base import Connector, Published
from publisher.models import Channel

_CONNECTORS: dict[str, Connector] = {
    Channel.META_FACEBOOK: facebook.FacebookPage(),
    Channel.META_INSTAGRAM: instagram.Instagram(),
    Channel.META_INSTAGRAM_STORIES: instagram.Stories(),
    Channel.TIKTOK: tiktok.TikTok(),
    Channel.YOUTUBE: youtube.YouTube(),
    Channel.GOOGLE_BUSINESS: google_business.GoogleBusiness(),
    Channel.WORDPRESS_BLOG: wordpress.WordPress(),
    Channel.LINKEDIN: linkedin.LinkedIn(),
    Channel.X: x.X(),
    Channel.MASTODON: mastodon.Mastodon(),
    Channel.BLUESKY: bluesky.Bluesky(),
}


def of(channel: str) -> Connector:
    """Return the connector of a channel."""
    return _CONNECTORS[channel]


__all__ = ["Connector", "Published", "of"]

"""The connectors, by channel: what a post needs, its preview, and the calls that publish it."""

from __future__ import annotations

from publisher import channels
from publisher.channels import Channel
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
from publisher.connectors.absent import Absent
from publisher.connectors.base import Connector, Published, Run, Taken, media_faults, with_link
from publisher.connectors.client import Api, bearer, id_of, rows_of
from publisher.connectors.media import Source, fetched
from publisher.errors import Fault, ProviderError, Unclear

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
    """Return the connector of a channel, whose distribution may be gone."""
    return _CONNECTORS.get(channel) or channels.found().connectors.get(channel) or Absent()


__all__ = [
    "Api", "Connector", "Fault", "ProviderError", "Published", "Run", "Source", "Taken", "Unclear",
    "bearer", "fetched", "id_of", "media_faults", "of", "rows_of", "with_link",
]  # fmt: skip
"""Beside ``of``, what connectors of other distributions are written with."""

"""The connectors, by channel: what a post needs, its preview, and the calls that publish it."""

from __future__ import annotations

from typing import Any

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
from publisher.models import Account

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


def of_brand(channel: str, brand_id: Any) -> Connector:
    """Return the connector of a channel, with the least limit of the accounts of a brand."""
    found = of(channel)
    if not found.asks_limit:
        return found
    rows = Account.objects.filter(brand=brand_id, channel=channel)
    limits = rows.exclude(status=Account.Status.DISABLED).values_list("text_limit", flat=True)
    return found.within(min((one or found.limit or 0 for one in limits), default=None))


__all__ = [
    "Api", "Connector", "Fault", "ProviderError", "Published", "Run", "Source", "Taken", "Unclear",
    "bearer", "fetched", "id_of", "media_faults", "of", "of_brand", "rows_of", "with_link",
]  # fmt: skip
"""Beside ``of``, what connectors of other distributions are written with."""

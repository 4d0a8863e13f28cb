"""The jobs of the publisher: one kind per channel. They carry an id, and nothing of the post."""

from __future__ import annotations

from types import new_class
from typing import Any, Literal
from uuid import UUID

import jobs
from publisher import channels
from publisher.channels import Channel


class PublishFacebook(jobs.Payload, kind="publisher.meta_facebook"):
    """Publish on a Facebook page."""

    publication_id: UUID


class PublishInstagram(jobs.Payload, kind="publisher.meta_instagram"):
    """Publish on Instagram, or comment on what was published."""

    publication_id: UUID


class PublishStory(jobs.Payload, kind="publisher.meta_instagram_stories"):
    """Publish an Instagram story."""

    publication_id: UUID


class PublishTikTok(jobs.Payload, kind="publisher.tiktok"):
    """Publish a video on TikTok."""

    publication_id: UUID


class PublishYouTube(jobs.Payload, kind="publisher.youtube"):
    """Publish a video on YouTube."""

    publication_id: UUID


class PublishGoogleBusiness(jobs.Payload, kind="publisher.google_business"):
    """Publish on a Google Business Profile."""

    publication_id: UUID


class PublishWordPress(jobs.Payload, kind="publisher.wordpress_blog"):
    """Publish on a WordPress blog."""

    publication_id: UUID


class PublishLinkedIn(jobs.Payload, kind="publisher.linkedin"):
    """Publish on LinkedIn."""

    publication_id: UUID


class PublishX(jobs.Payload, kind="publisher.x"):
    """Publish on X."""

    publication_id: UUID


class PublishMastodon(jobs.Payload, kind="publisher.mastodon"):
    """Publish on Mastodon."""

    publication_id: UUID


class PublishBluesky(jobs.Payload, kind="publisher.bluesky"):
    """Publish on Bluesky."""

    publication_id: UUID


class Tell(jobs.Payload, kind="publisher.tell"):
    """Mail one person about one event."""

    topic: str
    user: str
    publication: UUID | None = None
    account: UUID | None = None
    channel: str = ""


class Digest(jobs.Payload, kind="publisher.digest"):
    """Mail the alerts of a day or a week to one person, or to all who manage a brand."""

    period: Literal["daily", "weekly"]
    user: str = ""


PAYLOADS: dict[str, type[Any]] = {
    Channel.META_FACEBOOK: PublishFacebook,
    Channel.META_INSTAGRAM: PublishInstagram,
    Channel.META_INSTAGRAM_STORIES: PublishStory,
    Channel.TIKTOK: PublishTikTok,
    Channel.YOUTUBE: PublishYouTube,
    Channel.GOOGLE_BUSINESS: PublishGoogleBusiness,
    Channel.WORDPRESS_BLOG: PublishWordPress,
    Channel.LINKEDIN: PublishLinkedIn,
    Channel.X: PublishX,
    Channel.MASTODON: PublishMastodon,
    Channel.BLUESKY: PublishBluesky,
}
"""By channel. Each has the field ``publication_id``."""


def made_for(channel: str) -> type[Any]:
    """Return the payload of a channel that another distribution connects."""

    def fill(space: dict[str, Any]) -> None:
        space |= {
            "__annotations__": {"publication_id": UUID}, "__module__": __name__,
            "__doc__": f"Publish on {channels.label(channel)}.",
        }  # fmt: skip

    kind = {"kind": f"publisher.{channel}"}
    return new_class(f"Publish_{channel}", (jobs.Payload,), kind, fill)


PAYLOADS |= {one: made_for(one) for one in channels.found().connectors}

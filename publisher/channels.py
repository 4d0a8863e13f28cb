"""The channels: those of the publisher, and those that other distributions connect."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from publisher.connectors.base import Connector

GROUP = "publisher.connectors"
"""The group of entry points whose names are channels, and whose values are their connectors."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Channel(models.TextChoices):
    """The channels of the publisher itself."""

    META_FACEBOOK = "meta_facebook", _("Facebook page")
    META_INSTAGRAM = "meta_instagram", _("Instagram")
    META_INSTAGRAM_STORIES = "meta_instagram_stories", _("Instagram stories")
    TIKTOK = "tiktok", _("TikTok")
    YOUTUBE = "youtube", _("YouTube")
    GOOGLE_BUSINESS = "google_business", _("Google Business Profile")
    WORDPRESS_BLOG = "wordpress_blog", _("WordPress blog")
    LINKEDIN = "linkedin", _("LinkedIn")
    X = "x", _("X")
    MASTODON = "mastodon", _("Mastodon")
    BLUESKY = "bluesky", _("Bluesky")


@dataclass(frozen=True, slots=True)
class Found:
    """The connectors of other distributions by channel, and what is wrong with the rest."""

    connectors: dict[str, Connector] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def names() -> list[str]:
    """Return every channel."""
    return [*Channel.values, *found().connectors]


def choices() -> list[tuple[str, Any]]:
    """Return every channel with its label."""
    return [*Channel.choices, *((n, one.label or n) for n, one in found().connectors.items())]


def label(name: str) -> str:
    """Return the label of a channel; its name if its distribution is gone."""
    return str(dict(choices()).get(name, name))


def sender(name: str) -> str:
    """Return what signals have as the sender of a channel's jobs."""
    return Channel(name) if name in Channel.values else sys.intern(name)


_found: Found | None = None


def found() -> Found:
    """Return the connectors of other distributions, which are loaded once."""
    global _found
    if _found is None:
        _found = Found()  # for a connector that asks for the channels while it is loaded
        _found = read(entry_points(group=GROUP))
    return _found


def read(points: Iterable[EntryPoint]) -> Found:
    """Load the connectors that entry points name; what cannot be one becomes a problem."""
    by_name: dict[str, list[EntryPoint]] = {}
    for point in points:
        by_name.setdefault(point.name, []).append(point)
    made = Found()
    for name, same in sorted(by_name.items()):
        connector = _made(name, same)
        if isinstance(connector, str):
            made.problems.append(f"{connector} ({', '.join(map(_origin, same))})")
        else:
            made.connectors[name] = connector
    return made


def _made(name: str, points: list[EntryPoint]) -> Connector | str:
    """Return the connector, or why there is none."""
    from publisher.connectors.base import Connector

    if not _NAME.fullmatch(name):
        return f"{name!r} is no name of a channel: lower case letters, digits and underscores"
    if name in Channel.values:
        return f"{name!r} is a channel of the publisher itself"
    if len({point.value for point in points}) > 1:
        return f"{name!r} is registered by several distributions; none of them is used"
    try:
        loaded = points[0].load()
        connector = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # whatever the code of others does
        return f"{name!r} cannot be loaded: {type(error).__name__}: {error}"
    if not isinstance(connector, Connector):
        return f"{name!r} is no publisher.connectors.Connector"
    return connector


def _origin(point: EntryPoint) -> str:
    dist = point.dist
    return f"{dist.name} {dist.version}, {point.value}" if dist is not None else point.value

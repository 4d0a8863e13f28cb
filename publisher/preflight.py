"""What each channel would make of a post: its score, its counter, failures and warnings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from publisher import assets, connectors, localtime, repeats, services
from publisher.connectors import Connector
from publisher.content import Content
from publisher.drafts import Draft
from publisher.models import Account, Asset, Brand

FAILURE, WARNING = 25, 10
NEAR = 0.8
"""From which part of its limit on, a text is called long."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that a channel would refuse, or that may look wrong there."""

    level: str
    pointer: str
    message: str


@dataclass(slots=True)
class Seen:
    """What one channel would make of a post."""

    channel: str
    length: int
    limit: int | None
    checks: list[Check]
    preview: dict[str, Any] = field(default_factory=dict)

    @property
    def blocked(self) -> bool:
        return any(one.level == "fail" for one in self.checks)

    @property
    def score(self) -> int:
        lost = sum(FAILURE if one.level == "fail" else WARNING for one in self.checks)
        return max(100 - lost, 0)


def look(brand: Brand, draft: Draft, names: Iterable[str], at: str = "") -> list[Seen]:
    """Return what each channel would make of a post at a time.

    Raises Refused for an unknown channel, and for a time that is none.
    """
    channels = dict.fromkeys(services.channel_of(name) for name in names)
    moment = localtime.read(at, brand.time_zone).at if at else None
    found = [look_at(brand.pk, draft, channel) for channel in channels]
    for one in found:
        if not one.blocked:
            one.checks += _alike(brand, draft.on(one.channel).filled(), one.channel, moment)
    return found


def look_at(brand_id: Any, draft: Draft, channel: str) -> Seen:
    """Return what one channel would make of a post, whatever else its accounts publish."""
    post = draft.on(channel).filled()
    failures = [Check("fail", f"/{f.field}", f.message) for f in draft.faults(channel, brand_id)]
    connector = connectors.of_brand(channel, brand_id)
    seen = Seen(channel, connector.length(post), connector.limit, failures)
    if not failures:
        post = assets.bound(brand_id, post, channel)
        seen.checks += _warnings(draft, post, channel, connector)
        seen.preview = connector.preview(post)
    return seen


def _warnings(draft: Draft, post: Content, channel: str, connector: Connector) -> list[Check]:
    limit = connector.limit
    found = [
        Check("warning", f"/content/{name}", "is left out on this channel")
        for name in sorted(connector.left_out)
        if getattr(draft, name) and not getattr(post, name)
    ]
    if limit is not None and connector.length(post) > NEAR * limit:
        found.append(Check("warning", "/content/caption", f"is close to the limit of {limit}"))
    return found + _of_media(post, channel)


def _alike(brand: Brand, post: Content, channel: str, at: datetime | None) -> list[Check]:
    """Return what posts of the brand's accounts on the channel have in common with this one."""
    accounts = Account.objects.filter(brand=brand, channel=channel).select_related("brand")
    return [
        Check("warning", "/content/caption" if found.what == "text" else "/at", found.words)
        for account in accounts.exclude(status=Account.Status.DISABLED)
        for found in repeats.warnings(account, post.caption, at)
    ]


def _of_media(post: Content, channel: str) -> list[Check]:
    known = Asset.objects.in_bulk([one.asset for one in post.media if one.asset])
    found = []
    for number, one in enumerate(post.media):
        where = f"/content/media/{number}"
        if one.kind == "image" and not one.alt_text:
            found.append(Check("warning", f"{where}/alt_text", "has no alternative text"))
        asset = known.get(one.asset) if one.asset else None
        ratios = connectors.of(channel).ratio
        if asset is None or not asset.height or ratios is None:
            continue
        least, most = ratios
        if not least <= (ratio := asset.width / asset.height) <= most:
            words = f"has the ratio {ratio:.2f}; this channel shows {least} to {most} whole"
            found.append(Check("warning", where, words))
    return found

"""What connectors share: one attempt at a publication, its steps, and what they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self
from urllib.parse import quote

from django.db import transaction

import jobs
from jobs import effects, http
from publisher.clock import now
from publisher.content import Content
from publisher.errors import Expired, Fault, ProviderError
from publisher.models import Account, Publication

PUBLISH = "publish"
"""The key of the effect that makes a post appear."""
SETTLED_AFTER = 60.0
"""Seconds after the intent before a post that is not found counts as not published.

Its request may still be on its way, and lists of posts lag behind.
"""

EARLY = timedelta(minutes=5)
"""How far the provider's clock may be behind."""


def publishing_key(row: Publication) -> str:
    """Return the key of the effect that makes a publication appear."""
    again = row.handle.get("again", 1)
    return PUBLISH if again == 1 else f"{PUBLISH}:{again}"


@dataclass(frozen=True, slots=True)
class Published:
    """A post that has appeared."""

    remote_id: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The images that a channel takes: their types, and up to how many bytes."""

    types: tuple[str, ...]
    most: int


class Connector(ABC):
    """Publishes on one channel, and knows what the channel takes."""

    limit: ClassVar[int | None] = None
    """How long a text may be, as ``length`` counts it; None is no limit."""
    unit: ClassVar[str] = "characters"
    label: ClassVar[str] = ""
    """What people call the channel, where it is that of another distribution."""
    asks_limit: ClassVar[bool] = False
    """Whether servers of the channel take texts of different lengths."""
    needs_address: ClassVar[bool] = False
    """Whether an account is useless without the address of its server."""
    left_out: ClassVar[Collection[str]] = ()
    """Fields that its posts do not have: what all channels of a plan share of them is left out."""
    ratio: ClassVar[tuple[float, float] | None] = None
    """Between which ratios of width and height media are shown whole."""
    images: ClassVar[Taken | None] = None
    """The images that it takes; None where it takes any, or none."""

    @abstractmethod
    def faults(self, content: Content) -> list[Fault]:
        """Return why the channel would not take the post."""

    @abstractmethod
    def preview(self, content: Content) -> dict[str, Any]:
        """Return the post as the channel would get it; call nobody."""

    @abstractmethod
    def publish(self, run: Run) -> Published:
        """Publish the post, or raise how the attempt ends."""

    def within(self, limit: int | None) -> Self:
        """Return the connector for servers that take texts of this length."""
        if limit is None or limit == self.limit:
            return self
        made = copy(self)
        vars(made)["limit"] = limit
        return made

    def longest(self, base_url: str) -> int | None:
        """Return how long a text a server takes, if it says so."""
        return None

    def length(self, content: Content) -> int:
        """Return the length of the text as the channel counts it."""
        return len(content.text)

    def too_long(self, content: Content) -> list[Fault]:
        """Return the fault of a text that is longer than the channel takes."""
        length = self.length(content)
        if self.limit is None or length <= self.limit:
            return []
        return [Fault("caption", f"has {length} {self.unit}; the channel takes {self.limit}")]


class Run:
    """One attempt of a publication's job."""

    def __init__(self, ctx: jobs.Context, row: Publication) -> None:
        self.ctx, self.row = ctx, row
        self.account: Account = row.account
        self.content = Content.model_validate(row.content)

    @property
    def has_begun(self) -> bool:
        """Return whether the publishing step may have been taken."""
        return bool(self.row.handle.get("publishing"))

    def keep(self, **values: Any) -> None:
        """Store what the provider has handed out; None removes a value."""
        with transaction.atomic():
            self.ctx.fence()
            merged = {**self.row.handle, **values}
            self.row.handle = {name: it for name, it in merged.items() if it is not None}
            self.row.save(update_fields=["handle"])

    def check_time(self) -> None:
        """Raise Expired past ``publish_until``."""
        if now() >= self.row.publish_until:
            raise Expired

    def step(self, key: str, call: Callable[[], Any]) -> Any:
        """Take a step that may be repeated, such as creating a container."""
        return self.ctx.effect(key, call, definite=(ProviderError,), on_doubt="rerun")

    def publish(
        self, call: Callable[[], Any], find: Callable[[effects.Intent], effects.Answer]
    ) -> Any:
        """Take the step that makes the post appear, once; ``find`` asks whether it has."""

        def begin() -> Any:
            self.check_time()
            self.keep(publishing=True)
            try:
                return call()
            except ProviderError as error:
                if error.action == "already" and self.row.doubted:
                    return {"id": error.remote_id}
                self.keep(publishing=None)
                raise
            except (http.HttpError, effects.CircuitOpen, jobs.flow.MeterFull) as error:
                if not getattr(error, "sent", False):
                    self.keep(publishing=None)
                raise

        def probe(intent: effects.Intent) -> effects.Answer:
            if not self.has_begun:  # it is noted before the request is sent
                return effects.NotHappened()
            self.doubt()
            found = find(intent)
            waited = (now() - intent.intended_at).total_seconds()
            if not isinstance(found, effects.Happened) and waited < SETTLED_AFTER:
                raise jobs.Snooze(SETTLED_AFTER - waited, "waits to see whether it has appeared")
            return found

        request = jobs.types.Vouched(
            {name: it for name, it in self.row.handle.items() if name in ("container", "slug")}
        )
        try:
            return self.ctx.effect(
                publishing_key(self.row),
                begin,
                probe=probe,
                request=request,
                definite=(ProviderError, Expired),
            )
        except http.HttpError as error:
            if error.sent:
                self.doubt()
            raise

    def link(self, url: str, remote: str) -> str:
        """Return where a post can be seen: at the provider, or at what stands in for it.

        An account with an address of its own publishes there, and not at the provider.
        """
        if not remote or not self.account.base_url:
            return url if remote else ""
        return f"{http.URL(self.account.base_url).join('/posts')}#{quote(remote)}"

    def doubt(self) -> None:
        """Remember that the outcome of a publishing call was unknown."""
        if not self.row.doubted:
            self.row.doubted = True
            Publication.objects.filter(pk=self.row.pk).update(doubted=True)


def media_faults(content: Content, most: int, kinds: tuple[str, ...], words: str) -> list[Fault]:
    """Return the faults of media that the channel does not take."""
    found = []
    if len(content.media) > most:
        found.append(Fault("media", words))
    for number, one in enumerate(content.media):
        if one.kind not in kinds:
            found.append(Fault(f"media/{number}/kind", words))
        if one.asset is not None:
            continue
        try:
            http.check(one.url)
        except http.Blocked as error:
            found.append(Fault(f"media/{number}/url", str(error)))
    return found


def with_link(content: Content) -> str:
    """Return the text with the link below it, where posts have no field for links."""
    if not content.link or content.link in content.text:
        return content.text
    return f"{content.text}\n\n{content.link}" if content.text else content.link


def link_faults(content: Content) -> list[Fault]:
    """Return the fault of a link that leads nowhere public."""
    try:
        if content.link:
            http.check(content.link)
    except http.Blocked as error:
        return [Fault("link", str(error))]
    return []


def status_faults(content: Content, words: str) -> list[Fault]:
    """Return the faults of a short post with up to four images, or one video."""
    found = link_faults(content) + media_faults(content, 4, ("image", "video"), words)
    if len(content.media) > 1 and any(one.kind == "video" for one in content.media):
        found.append(Fault("media", words))
    if not (with_link(content).strip() or content.media):
        found.append(Fault("caption", "the post is empty"))
    return found


def moment_of(text: object) -> datetime | None:
    """Return a time as providers write it."""
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else None

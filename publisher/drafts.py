"""The content of a plan: one text for all channels, and what differs on some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from publisher import assets, channels, connectors, content
from publisher.channel_names import Name
from publisher.channels import Channel
from publisher.content import Content, Media, Text
from publisher.errors import Fault, Refused

INVALID = "fp_publisher_invalid_plan"
BLOCKED = "fp_publisher_preflight_blocked"


class Override(BaseModel):
    """What differs on one channel; what is None is as everywhere."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    caption: Text | None = None
    title: Annotated[str, StringConstraints(max_length=500)] | None = None
    link: Annotated[str, StringConstraints(max_length=2000)] | None = None
    media: Annotated[list[Media], Field(max_length=10)] | None = None


class Draft(Content):
    """A post for several channels."""

    overrides: dict[Name, Override] = Field(default_factory=dict)

    def on(self, channel: str) -> Content:
        """Return the post for one channel, without what the channel does not have."""
        own = self.overrides.get(channel, Override()).model_dump(exclude_none=True)
        common = self.model_dump(exclude={"overrides"})
        left_out = {*connectors.of(channel).left_out}
        if channel != Channel.META_INSTAGRAM:
            left_out.add("ig_first_comment")
        shared = {name: value for name, value in common.items() if name not in left_out}
        return Content.model_validate({**shared, **own})

    @property
    def assets(self) -> set[UUID]:
        """Return the assets that it shows on any channel."""
        own = (one for other in self.overrides.values() for one in other.media or ())
        return super().assets | {one.asset for one in own if one.asset is not None}

    def kept(self) -> dict[str, Any]:
        """Return what a version keeps."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def faults(self, channel: str, brand_id: Any) -> list[Fault]:
        """Return why a channel would not take the post, with pointers into the content."""
        try:
            post = assets.bound(brand_id, self.on(channel), channel, "content")
        except Refused as error:
            return list(error.faults)
        own = self.overrides.get(channel, Override()).model_dump(exclude_none=True)
        found = content.problems(post) + connectors.of_brand(channel, brand_id).faults(
            post.filled()
        )
        label = channels.label(channel)
        return [
            Fault(
                f"content/overrides/{channel}/{one.field}"
                if one.field.partition("/")[0] in own
                else f"content/{one.field}",
                f"{label}: {one.message}",
            )
            for one in found
        ]


def read(raw: Any, where: str = "content") -> Draft:
    """Return the content; raise Refused that names every field that is wrong."""
    try:
        return Draft.model_validate(raw)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[:20]
        raise Refused(
            INVALID, *(Fault(_path(where, one["loc"]), one["msg"]) for one in found)
        ) from None


def _path(where: str, location: Iterable[object]) -> str:
    return "/".join([where, *(str(part) for part in location if part != "[key]")])


def check(draft: Draft, channels: Iterable[str], brand_id: Any) -> None:
    """Raise Refused with everything that any of the channels would not take."""
    names = dict.fromkeys(channels)
    if found := [fault for name in names for fault in draft.faults(name, brand_id)]:
        raise Refused(BLOCKED, *found)

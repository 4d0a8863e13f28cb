"""The operation of preflight: what each channel would make of a post, before it is one."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Schema

from jobs.api import In, Problem
from publisher import channels, drafts, preflight
from publisher.api import problem_of, section, within
from publisher.errors import Refused
from publisher.models import Brand
from publisher.verbs import VIEW_PLAN


class PreflightIn(In):
    """A post, and the channels to look at."""

    brand: str = Field(min_length=1, max_length=60)
    content: dict[str, Any]
    channels: list[str] = Field(min_length=1, max_length=len(channels.names()))
    at: str = Field("", max_length=40)
    """When it is to appear, as that of a slot: posts in the same hour are warned of."""


class PreflightCheckOut(Schema):
    """Something that a channel would refuse, or that may look wrong there."""

    level: Literal["fail", "warning"]
    pointer: str
    message: str


class PreflightChannelOut(Schema):
    """What one channel would make of the post."""

    channel: str
    score: int
    """100, less 25 for each failure and 10 for each warning."""
    blocked: bool
    length: int
    """Of the text, as the channel counts it."""
    limit: int | None
    checks: list[PreflightCheckOut]
    preview: dict[str, Any]
    """What the channel would get; empty where it would refuse the post."""


class PreflightOut(Schema):
    """What the channels would make of the post."""

    blocked: bool
    channels: list[PreflightChannelOut]


@section.post("/preflight", "publisher_preflight", needs=VIEW_PLAN, answer=PreflightOut)
def preflight_of(request: HttpRequest, body: PreflightIn) -> Any:
    """Look at a post as each channel would; nothing is stored."""
    brand = within(request, Brand.objects.filter(slug=body.brand)).first()
    if brand is None:
        raise Problem(404, "not-found", "there is no such brand")
    try:
        found = preflight.look(brand, drafts.read(body.content), body.channels, body.at)
    except Refused as error:
        raise problem_of(error) from None
    return {"blocked": any(one.blocked for one in found), "channels": found}

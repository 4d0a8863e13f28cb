"""What people do with plans and slots, for the admin, the API and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

import jobs
from jobs.verbs import Act, By, Target, acting, verb
from publisher import access, config, drafts, plans, template_verbs
from publisher.channel_names import Name
from publisher.errors import Fault, Refused
from publisher.models import Approval, Brand, Plan, Slot
from publisher.services import INVALID_PLAN
from publisher.verbs import (
    ADD_PLAN,
    APPROVE_PLAN,
    CHANGE_PLAN,
    SCHEDULE_PLAN,
    VIEW_PLAN,
)

PLAN = Target(
    "plan", UUID, "plans", rows=Plan.objects.all, tenant="tenant", queue=config.QUEUE
)  # fmt: skip
SLOT = Target("slot", UUID, "slots", rows=Slot.objects.all, tenant="tenant", queue=config.QUEUE)

At = Annotated[
    str,
    Field(min_length=1, max_length=40,
          description="such as 2031-05-01T10:00, on the clocks of the zone, or next: the next "
                      "free posting time"),
]  # fmt: skip
Zone = Annotated[str, Field(max_length=64, description="another time zone")]
Note = Annotated[str, Field(max_length=5000, description="what the author is told")]
Url = Annotated[str, Field(max_length=2000)]
Assets = Annotated[
    list[UUID] | None, Field(max_length=10, description="images and videos that were uploaded")
]


@contextmanager
def on_plan(
    function: Any, plan_id: UUID, role: str, *, by: By, reason: str = ""
) -> Iterator[tuple[Act, Plan]]:
    """Open the act of a verb on a plan, locked, for members with this role."""
    with acting(function, plan_id, by=by, reason=reason) as act:
        plan = PLAN.locked(plan_id)
        access.require(by, plan.brand_id, role)
        before = {"status": plan.status, "version": plan.version}
        yield act, plan
        act.changed(before, {"status": plan.status, "version": plan.version})


@contextmanager
def on_slot(function: Any, slot_id: UUID, role: str, *, by: By) -> Iterator[tuple[Act, Plan, Slot]]:
    """Open the act of a verb on a slot, whose plan is locked, for members with this role."""
    with acting(function, slot_id, by=by) as act:
        rows = Slot.objects.select_related("publication", "account__brand").filter(pk=slot_id)
        plan = PLAN.locked(rows.values_list("plan_id", flat=True).first())
        access.require(by, plan.brand_id, role)
        found = rows.first()
        if found is None:
            raise SLOT.unknown(slot_id)
        before = {"at": str(found.at)}
        yield act, plan, found
        act.changed(before, {"at": str(found.at)})


def create_with(
    slug: str, title: str, content: Any, places: Iterable[plans.Place], *, by: By,
    template: UUID | None = None,
) -> Plan:  # fmt: skip
    """Create a plan of a brand with any content and slots; what a template has may be left out."""
    place = jobs.acts.Place(f"brand:{slug}", config.QUEUE)
    with acting(create, by=by, place=place) as act:
        brand = Brand.objects.filter(slug=slug).first()
        if brand is None:
            raise Refused(INVALID_PLAN, Fault("brand", "there is no such brand"))
        access.require(by, brand.pk, "editor")
        if template is not None:
            content = template_verbs.content_for(brand.pk, template, content)
        made = plans.create(brand, title, content, places, by=str(by))
        act.concerns(made.pk)
    return made


def content_of(
    caption: str, headline: str, link: str, image: str, video: str, first_comment: str,
    assets: Iterable[UUID] | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the content that the fields of a form mean."""
    media = [{"url": url, "kind": kind} for url, kind in ((image, "image"), (video, "video"))]
    given = {
        "caption": caption, "title": headline, "link": link, "ig_first_comment": first_comment,
        "media": [*of_assets(assets), *(one for one in media if one["url"])],
    }  # fmt: skip
    return {name: value for name, value in given.items() if value}


def of_assets(assets: Iterable[UUID] | None) -> list[dict[str, str]]:
    """Return media that show assets, in their order."""
    return [{"asset": str(one)} for one in assets or ()]


@verb("plan.create", on=PLAN, permission=ADD_PLAN, new=True)
def create(
    brand: Annotated[str, Field(min_length=1, max_length=60, description="slug of the brand")],
    title: Annotated[str, Field(min_length=1, max_length=150, description="only members see it")],
    *,
    by: By,
    caption: Annotated[str, Field(max_length=63_206)] = "",
    headline: Annotated[str, Field(max_length=500, description="of a blog post or video")] = "",
    link: Url = "",
    image: Annotated[str, Field(max_length=2000, description="address of an image")] = "",
    video: Annotated[str, Field(max_length=2000, description="address of a video")] = "",
    first_comment: Annotated[str, Field(max_length=2200, description="on Instagram")] = "",
    channels: list[Name] = [],  # noqa: B006  never changed
    at: Annotated[
        str,
        Field(
            max_length=40,
            description="when, such as 2031-05-01T10:00, in the brand's zone, or next: the "
            "next free posting time",
        ),
    ] = "",
    template: Annotated[UUID | None, Field(description="fills what is left empty")] = None,
    placeholders: Annotated[
        str, Field(max_length=20_000, description="a line name=value for each placeholder")
    ] = "",
    assets: Assets = None,
) -> Plan:
    """Create a plan: a draft of a post for one or more channels."""
    if bool(channels) != bool(at):
        field = "at" if channels else "channels"
        raise Refused(INVALID_PLAN, Fault(field, "channels and a time go together"))
    content = content_of(caption, headline, link, image, video, first_comment, assets)
    if values := values_of(placeholders):
        content["placeholders"] = values
    places = [plans.Place(channel, at) for channel in channels]
    return create_with(brand, title, content, places, by=by, template=template)


def values_of(text: str) -> dict[str, str]:
    """Return the values of placeholders, one line each; raise Refused for a line that is none."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not name.strip().isidentifier():
            fault = Fault("placeholders", f"{line[:40]!r} is not like name=value")
            raise Refused(INVALID_PLAN, fault)
        found[name.strip()] = value.strip().replace("\\n", "\n")
    return found


def lines_of(values: Mapping[str, str]) -> str:
    """Return values of placeholders as ``values_of`` takes them."""
    return "\n".join(
        f"{name}={text.replace(chr(13), '').replace(chr(10), chr(92) + 'n')}"
        for name, text in values.items()
    )


@verb("plan.edit", on=PLAN, permission=CHANGE_PLAN)
def edit(
    plan_id: UUID,
    *,
    by: By,
    caption: Annotated[str | None, Field(max_length=63_206)] = None,
    headline: Annotated[
        str | None, Field(max_length=500, description="of a blog post or video")
    ] = None,
    link: Annotated[str | None, Field(max_length=2000)] = None,
    first_comment: Annotated[str | None, Field(max_length=2200, description="on Instagram")] = None,
    placeholders: Annotated[
        str | None, Field(max_length=20_000, description="a line name=value for each placeholder")
    ] = None,
    assets: Assets = None,
) -> None:
    """Change the content of a plan: it is a draft again, and posts that wait are cancelled."""
    given = {"caption": caption, "title": headline, "link": link, "ig_first_comment": first_comment}
    with on_plan(edit, plan_id, "editor", by=by) as (_act, plan):
        known = plans.current(plan).content
        change: dict[str, Any] = {n: text for n, text in given.items() if text is not None}
        if placeholders is not None:
            change["placeholders"] = values_of(placeholders)
        if assets is not None:
            linked = [one for one in known.get("media", []) if "asset" not in one]
            change["media"] = [*of_assets(assets), *linked]
        plans.edit(plan, drafts.read({**known, **change}), by=str(by))


@verb("plan.override", on=PLAN, permission=CHANGE_PLAN)
def override(
    plan_id: UUID,
    channel: Name,
    *,
    by: By,
    caption: Annotated[str, Field(max_length=63_206)] = "",
    headline: Annotated[str, Field(max_length=500, description="of a blog post or video")] = "",
    link: Url = "",
) -> None:
    """Give a channel a text of its own; what is left empty there is as on all channels."""
    given = {"caption": caption, "title": headline, "link": link}
    with on_plan(override, plan_id, "editor", by=by) as (_act, plan):
        known = plans.current(plan).content
        others = dict(known.get("overrides", {}))
        own = {n: v for n, v in others.pop(channel, {}).items() if n not in given}
        own |= {name: text for name, text in given.items() if text}
        if own:
            others[channel] = own
        plans.edit(plan, drafts.read({**known, "overrides": others}), by=str(by))


def edit_with(plan_id: UUID, content: Any, title: str | None, *, by: By) -> None:
    """Replace the whole content of a plan, its title, or both."""
    with on_plan(edit, plan_id, "editor", by=by) as (_act, plan):
        if content is not None:
            plans.edit(plan, drafts.read(content), by=str(by))
        if title is not None:
            plan.title = title
            plan.save(update_fields=["title"])


@verb("plan.submit", on=PLAN, permission=CHANGE_PLAN)
def submit(plan_id: UUID, *, by: By) -> None:
    """Ask for the approval of a draft."""
    with on_plan(submit, plan_id, "editor", by=by) as (_act, plan):
        plans.submit(plan, by=str(by))


Version = Annotated[
    int | None, Field(ge=1, description="the version that you have read; others are refused")
]


@verb("plan.approve", on=PLAN, permission=APPROVE_PLAN)
def approve(plan_id: UUID, *, by: By, note: Note = "", version: Version = None) -> None:
    """Approve the current version of a plan."""
    with on_plan(approve, plan_id, "approver", by=by) as (_act, plan):
        decision = Approval.Decision.APPROVED
        plans.decide(plan, decision, by=str(by), note=note, version=version)


@verb("plan.reject", on=PLAN, permission=APPROVE_PLAN)
def reject(plan_id: UUID, *, by: By, note: Note, version: Version = None) -> None:
    """Request changes: the plan is a draft again."""
    with on_plan(reject, plan_id, "approver", by=by) as (_act, plan):
        decision = Approval.Decision.REJECTED
        plans.decide(plan, decision, by=str(by), note=note, version=version)


@verb("plan.schedule", on=PLAN, permission=SCHEDULE_PLAN)
def schedule(
    plan_id: UUID,
    *,
    by: By,
    at_once: Annotated[
        bool, Field(description="publish now instead of at the times of the slots")
    ] = False,
) -> None:
    """Schedule an approved plan: each slot gets its publication."""
    with on_plan(schedule, plan_id, "editor", by=by) as (_act, plan):
        plans.schedule(plan, by=str(by), at_once=at_once)


@verb("plan.reopen", on=PLAN, permission=CHANGE_PLAN)
def reopen(plan_id: UUID, *, by: By, reason: str) -> None:
    """Put a plan back to draft: its approval is void, and posts that wait are cancelled."""
    with on_plan(reopen, plan_id, "editor", by=by, reason=reason) as (_act, plan):
        plans.reopen(plan, by=str(by), reason=reason)


@verb("plan.add_slot", on=PLAN, permission=CHANGE_PLAN)
def add_slot(
    plan_id: UUID,
    channel: Name,
    at: At,
    *,
    by: By,
    account: Annotated[
        UUID | None, Field(description="needed if the brand has several on the channel")
    ] = None,
    zone: Zone = "",
    publish_until: datetime | None = None,
) -> str:
    """Add a slot to a plan, which has to be approved again."""
    with on_plan(add_slot, plan_id, "editor", by=by) as (act, plan):
        if publish_until is not None and publish_until.utcoffset() is None:
            raise Refused(INVALID_PLAN, Fault("publish_until", "needs a time zone"))
        place = plans.Place(channel, at, account, zone, publish_until)
        made = plans.add_slot(plan, place, by=str(by))
        act.note(slot=str(made.pk))
    return str(made.pk)


@verb("plan.copy", on=PLAN, permission=ADD_PLAN)
def copy(
    plan_id: UUID, *, by: By, title: Annotated[str, Field(max_length=150)] = ""
) -> str:  # fmt: skip
    """Copy the content of a plan to a new draft without slots."""
    with on_plan(copy, plan_id, "editor", by=by) as (act, plan):
        made = plans.copy(plan, title=title, by=str(by))
        act.note(plan=str(made.pk))
    return str(made.pk)


@verb("plan.comment", on=PLAN, permission=VIEW_PLAN)
def comment(
    plan_id: UUID,
    body: Annotated[str, Field(min_length=1, max_length=5000, description="@name mentions")],
    *,
    by: By,
) -> int:
    """Comment on a plan."""
    with on_plan(comment, plan_id, "viewer", by=by) as (_act, plan):
        made = plans.comment(plan, body, by=str(by))
    return int(made.pk)


@verb("slot.move", on=SLOT, permission=SCHEDULE_PLAN)
def move_slot(slot_id: UUID, at: At, *, by: By, zone: Zone = "") -> UUID:
    """Move a slot to another time; the approval stays."""
    with on_slot(move_slot, slot_id, "editor", by=by) as (act, plan, slot):
        plans.move_slot(plan, slot, at, by=str(by), zone=zone)
        if slot.note:
            act.note(warning=slot.note)
    return plan.pk


@verb("slot.remove", on=SLOT, permission=SCHEDULE_PLAN)
def remove_slot(slot_id: UUID, *, by: By) -> UUID:
    """Remove a slot from its plan; a post that waits is cancelled."""
    with on_slot(remove_slot, slot_id, "editor", by=by) as (_act, plan, slot):
        plans.remove_slot(plan, slot, by=str(by))
    return plan.pk

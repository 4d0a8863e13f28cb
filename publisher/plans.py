"""Plans: their versions, approvals and slots, and the publications that follow from them.

Every function is called in a transaction that holds the lock of the plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

import jobs
from publisher import assets, drafts, localtime, services, states, times
from publisher.clock import now
from publisher.drafts import Draft
from publisher.errors import Fault, Faults, Refused
from publisher.models import (
    Account,
    Approval,
    Brand,
    Comment,
    Member,
    Plan,
    PlanVersion,
    Publication,
    Slot,
)
from publisher.plan_states import Status
from publisher.plan_states import plan as machine

INVALID = services.INVALID_PLAN
MOST_SLOTS = 100
_MENTION = re.compile(r"(?<![\w@.])@([\w.@+-]+)")
_WAITING = (Publication.Status.PENDING, Publication.Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a plan is to appear, as somebody asks for it."""

    channel: str
    at: str
    """A time with an offset, or on the clocks of the zone; ``next``: the next free posting time."""
    account: UUID | None = None
    zone: str = ""
    """The brand's, if it is empty."""
    publish_until: datetime | None = None


def _faults() -> Faults:
    """Return where the faults of a request for a plan are collected."""
    return Faults(services.BLOCKED, INVALID)


def refused(message: str, field: str = "") -> Refused:
    """Return the refusal of a plan."""
    return Refused(INVALID, Fault(field, message))


def create(brand: Brand, title: str, content: Any, places: Iterable[Place], *, by: str) -> Plan:
    """Create a draft with its slots; raise Refused with everything wrong."""
    found = _faults()
    draft = found.within("", drafts.read, content)
    slots: list[Slot] = []
    for number, one in enumerate(places):
        others = tuple(slots)
        made = found.within(f"slots/{number}", _slot, brand, one, others)
        slots += [made] if made is not None else []
    if draft is None or found.found:
        raise found.refusal()
    assets.use(draft)
    plan = Plan(brand=brand, tenant=brand.tenant, title=title, created_by=by)
    plan.save(force_insert=True)
    plan.versions.create(number=1, content=draft.kept(), by=by)
    for slot in slots:
        _add(plan, slot)
    return plan


def _slot(brand: Brand, place: Place, others: Iterable[Slot] = ()) -> Slot:
    """Return a slot that is not saved yet, nor are others of the plan; raise Refused."""
    found = _faults()
    channel = found.within("", services.channel_of, place.channel)
    account = None
    if channel is not None:
        account = found.within("", _account, brand, channel, place.account)
    taken = {one.at for one in others if one.account == account}
    zone = place.zone or brand.time_zone
    moment = found.within("", _moment, place.at, zone, account, taken)
    if moment and moment.at < now():
        found.found.append(Fault("at", "lies in the past"))
    if moment and place.publish_until and place.publish_until <= moment.at:
        found.found.append(Fault("publish_until", "lies before the time of the post"))
    if found.found or not moment or not account or not channel:
        raise Refused(INVALID, *found.found)
    return Slot(
        tenant=brand.tenant, account=account, channel=channel, local_time=moment.local,
        zone=moment.zone, at=moment.at, note=moment.note, publish_until=place.publish_until,
    )  # fmt: skip


def _moment(
    text: str, zone: str, account: Account | None, taken: Collection[datetime] = ()
) -> localtime.Moment | None:
    """Return the time that is meant on an account; None if it depends on one that is unknown."""
    if text.strip().lower() != times.NEXT:
        return localtime.read(text, zone)
    return times.next_free(account, taken=taken) if account is not None else None


def _account(brand: Brand, channel: str, account: UUID | None) -> Account:
    rows = Account.objects.filter(brand=brand)
    try:
        return services.account_of(rows, channel, account=account)
    except Refused as error:
        raise Refused(INVALID, Fault("account", error.faults[0].message)) from None


def _add(plan: Plan, slot: Slot) -> Slot:
    if plan.slots.count() >= MOST_SLOTS:
        raise refused(f"a plan has at most {MOST_SLOTS} slots", "slots")
    slot.plan = plan
    try:
        with transaction.atomic():
            slot.save(force_insert=True)
    except IntegrityError:
        raise refused("the account has this time in the plan already", "slots") from None
    return slot


def current(plan: Plan) -> PlanVersion:
    """Return the current version of a plan."""
    return plan.versions.get(number=plan.version)


def draft_of(plan: Plan) -> Draft:
    """Return the current content of a plan."""
    return drafts.read(current(plan).content)


def edit(plan: Plan, draft: Draft, *, by: str) -> bool:
    """Give a plan another content; return whether it differs from the current one.

    Its approval is void then, and publications that wait are cancelled.
    """
    kept = draft.kept()
    if kept == current(plan).content:
        return False
    assets.use(draft)
    reopen(plan, by=by, reason="edited")
    plan.version += 1
    plan.save(update_fields=["version"])
    plan.versions.create(number=plan.version, content=kept, by=by)
    return True


def reopen(plan: Plan, *, by: str, reason: str) -> None:
    """Put a plan back to draft: approvals are void, and publications that wait are cancelled."""
    if plan.status == Status.DRAFT:
        return
    _need(plan, Status.READY, Status.APPROVED, Status.SCHEDULED)
    for slot in plan.slots.select_related("publication").order_by("at", "id"):
        _withdraw(slot, by=by, reason=reason)
    Approval.objects.filter(version__plan=plan, voided_at=None).update(voided_at=now())
    machine.move(plan, Status.DRAFT, by=by, why=reason)


def _withdraw(slot: Slot, *, by: str, reason: str) -> bool:
    """Cancel the publication of a slot if it waits; return whether the slot is free then."""
    row = slot.publication
    if row is None:
        return True
    if slot.is_closed:
        return False
    if row.status in _WAITING:
        _cancel(slot, row, by=by, reason=reason)
    slot.publication = None
    slot.save(update_fields=["publication"])
    return True


def _cancel(slot: Slot, row: Publication, *, by: str, reason: str) -> None:
    """Cancel a publication that waits; raise Refused if a worker has it, or has just had it."""
    try:
        is_running = jobs.cancel(row.pk, by=by, reason=reason).requested
    except jobs.errors.UnknownJob:
        is_running = False
    except jobs.errors.NotAllowed:  # its job has just ended
        is_running = True
    row.refresh_from_db()
    if is_running or slot.is_closed or row.status != Publication.Status.PENDING:
        raise refused("a post is being published now; try again in a minute")
    states.publication.move(
        row, Publication.Status.FAILED, by=by, why=reason,
        reason=Publication.Reason.CANCELLED, ended_at=now(),
    )  # fmt: skip


def submit(plan: Plan, *, by: str) -> None:
    """Ask for approval; raise Refused for what a channel would not take."""
    _need(plan, Status.DRAFT)
    slots = list(plan.slots.order_by("at", "id"))
    if not slots:
        raise refused("a plan needs a slot", "slots")
    drafts.check(draft_of(plan), [slot.channel for slot in slots], plan.brand_id)
    machine.move(plan, Status.READY, by=by)


def decide(
    plan: Plan, decision: str, *, by: str, note: str = "", version: int | None = None
) -> Approval:
    """Approve the current version of a plan, or request changes."""
    _need(plan, Status.READY)
    if version is not None and version != plan.version:
        raise refused(f"version {plan.version} is the current one", "version")
    made = Approval.objects.create(version=current(plan), decision=decision, note=note, by=by)
    if decision == Approval.Decision.APPROVED:
        machine.move(plan, Status.APPROVED, by=by, why=note)
    else:
        machine.move(plan, Status.DRAFT, by=by, why=note)
    return made


def schedule(plan: Plan, *, by: str, at_once: bool = False) -> None:
    """Make the publications of the slots; raise Refused if one cannot be made.

    With ``at_once``, they appear now instead of at the times of the slots.
    """
    _need(plan, Status.APPROVED)
    version, found = current(plan), _faults()
    draft = drafts.read(version.content)
    slots = list(plan.slots.select_related("publication", "account__brand").order_by("at", "id"))
    is_open = [slot for slot in slots if not slot.is_closed]
    if not is_open:
        raise refused("every slot has been published", "slots")
    seen = Counter[Any]()
    for number, slot in enumerate(slots):
        if slot in is_open:
            if at_once:
                _bring_forward(slot, seen[slot.account_id])
                seen[slot.account_id] += 1
            found.within(f"slots/{number}", _publish, slot, version, draft)
    found.check()
    machine.move(plan, Status.SCHEDULED, by=by)


def _bring_forward(slot: Slot, others: int) -> None:
    """Move a slot to now, a second after each of the others of its account."""
    at = now().replace(microsecond=0) + timedelta(seconds=2 + others)
    moment = localtime.read(at.isoformat(), slot.zone)
    slot.at, slot.local_time, slot.note, slot.publish_until = at, moment.local, "", None
    slot.save()


def _publish(slot: Slot, version: PlanVersion, draft: Draft) -> None:
    """Give a slot its publication; the same post at the same time is the same publication."""
    if slot.at < now():
        raise refused("lies in the past", "at")
    post = draft.on(slot.channel)
    made = services.schedule(slot.account, post, slot.at, slot.publish_until)
    row = made.row
    if not made.is_new and Slot.objects.filter(publication=row).exclude(pk=slot.pk).exists():
        raise refused("another slot has the same text and media on this channel at this time", "at")
    if row.status == Publication.Status.FAILED:
        if row.reason == Publication.Reason.IN_DOUBT or row.remote_id:
            raise refused("the same post may have appeared: settle it first", "at")
        services.revive(
            row, by="publisher", reason="scheduled again", at=slot.at, until=slot.publish_until
        )
    row.plan_version = version
    row.save(update_fields=["plan_version"])
    slot.publication = row
    slot.save(update_fields=["publication"])


def add_slot(plan: Plan, place: Place, *, by: str) -> Slot:
    """Add a slot. A plan that was ready or more must be approved again."""
    slot = _slot(plan.brand, place)
    reopen(plan, by=by, reason="a slot was added")
    return _add(plan, slot)


def move_slot(
    plan: Plan, slot: Slot, at: str, *, by: str, zone: str = "", reason: str = ""
) -> None:
    """Move a slot to another time; an approval stays."""
    _need(plan, Status.DRAFT, Status.READY, Status.APPROVED, Status.SCHEDULED)
    if slot.is_closed:
        raise refused("its post has appeared, or may have: the slot is closed")
    moment = _moment(at, zone or slot.zone, slot.account)
    if moment is None or moment.at < now():
        raise refused("lies in the past", "at")
    is_scheduled = plan.status == Status.SCHEDULED
    if is_scheduled and moment.at != slot.at:
        _withdraw(slot, by=by, reason="moved")
    if slot.publish_until is not None:
        slot.publish_until += moment.at - slot.at
    slot.at, slot.local_time, slot.zone = moment.at, moment.local, moment.zone
    slot.note = moment.note
    try:
        with transaction.atomic():
            slot.save()
    except IntegrityError:
        raise refused("the account has this time in the plan already", "at") from None
    if is_scheduled and slot.publication is None:
        version = current(plan)
        _publish(slot, version, drafts.read(version.content))


def remove_slot(plan: Plan, slot: Slot, *, by: str) -> None:
    """Remove a slot; its publication is cancelled."""
    _need(plan, Status.DRAFT, Status.READY, Status.APPROVED, Status.SCHEDULED)
    if not _withdraw(slot, by=by, reason="its slot was removed"):
        raise refused("its post has appeared, or may have: the slot is closed")
    if plan.status != Status.DRAFT and plan.slots.count() == 1:
        raise refused("a plan needs a slot; put it back to draft first")
    slot.delete()
    follow(plan)


def copy(plan: Plan, *, title: str, by: str) -> Plan:
    """Copy a plan without its slots, as a draft."""
    return create(plan.brand, title or plan.title, current(plan).content, [], by=by)


def comment(plan: Plan, body: str, *, by: str) -> Comment:
    """Comment on a plan; members that it names after an @ are mentioned."""
    names = {name.rstrip(".") for name in _MENTION.findall(body)}
    members = Member.objects.filter(brand=plan.brand_id).select_related("user")
    known = sorted({m.user.get_username() for m in members} & names)
    made = plan.comments.create(body=body, mentions=known, by=by)
    jobs.emit(
        "publisher.plan.commented", {"plan": str(plan.pk), "comment": made.pk},
        key=f"plan:{plan.pk}", tenant=plan.tenant,
    )  # fmt: skip
    return made


def follow(plan: Plan) -> None:
    """Bring the status of a scheduled plan up to its publications."""
    if plan.status not in (Status.SCHEDULED, Status.FAILED):
        return
    found = Publication.objects.filter(slot__plan=plan).values_list("status", flat=True)
    statuses = set(found)
    if statuses & set(_WAITING):
        wanted = Status.SCHEDULED
    elif Publication.Status.FAILED in statuses:
        wanted = Status.FAILED
    else:
        wanted = Status.PUBLISHED
    if wanted == plan.status:
        return
    is_replayed = plan.status == Status.FAILED and wanted == Status.PUBLISHED
    machine.walk(plan, [Status.SCHEDULED, wanted] if is_replayed else [wanted], by="publisher")


def is_withdrawn(row: Publication) -> bool:
    """Return whether a planned post must not be sent: its plan has changed, or its slot moved.

    One that may have been sent is none: its provider has to be asked.
    """
    if row.plan_version_id is None or row.doubted or row.handle.get("publishing"):
        return False
    slots = Slot.objects.filter(publication=row)
    version = slots.values_list("plan__version", flat=True).first()
    number = PlanVersion.objects.values_list("number", flat=True).get(pk=row.plan_version_id)
    return version != number


def _need(plan: Plan, *wanted: str) -> None:
    if plan.status not in wanted:
        names = " or ".join(wanted)
        raise refused(f"the plan is {plan.status}; it must be {names}", "status")

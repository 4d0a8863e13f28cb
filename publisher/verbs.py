"""What people do with brands, accounts and publications, for the admin, the API and the CLI."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from pydantic import Field

import jobs
from jobs import effects, http
from jobs.verbs import By, Target, acting, permissions, verb
from publisher import access, config, connectors, plans, services
from publisher.channel_names import Name
from publisher.connectors.base import publishing_key
from publisher.content import Content
from publisher.errors import Fault, Refused
from publisher.models import Account, Brand, Publication

VIEW = "publisher.view_publication"
VIEW_BRAND = "publisher.view_brand"
VIEW_ACCOUNT = "publisher.view_account"
SCHEDULE = "publisher.add_publication"
MANAGE_BRAND = "publisher.add_brand"
MANAGE_ACCOUNT = "publisher.change_account"
VIEW_PLAN = "publisher.view_plan"
ADD_PLAN = "publisher.add_plan"
CHANGE_PLAN = "publisher.change_plan"
APPROVE_PLAN = "publisher.approve_plan"
SCHEDULE_PLAN = "publisher.schedule_plan"
CHANGE_MEMBER = "publisher.change_member"
VIEW_ASSET = "publisher.view_asset"
ADD_ASSET = "publisher.add_asset"
VIEW_TEMPLATE = "publisher.view_template"
CHANGE_TEMPLATE = "publisher.change_template"
CHANGE_BRAND = "publisher.change_brand"
PERMISSIONS = {
    VIEW: _("Can see publications"),
    VIEW_BRAND: _("Can see brands"),
    VIEW_ACCOUNT: _("Can see accounts"),
    SCHEDULE: _("Can schedule publications"),
    MANAGE_BRAND: _("Can create brands"),
    MANAGE_ACCOUNT: _("Can connect accounts"),
    VIEW_PLAN: _("Can see plans"),
    ADD_PLAN: _("Can create plans"),
    CHANGE_PLAN: _("Can edit plans and ask for approval"),
    APPROVE_PLAN: _("Can approve plans"),
    SCHEDULE_PLAN: _("Can schedule plans"),
    CHANGE_MEMBER: _("Can change the members of brands"),
    VIEW_ASSET: _("Can see assets"),
    ADD_ASSET: _("Can upload assets"),
    VIEW_TEMPLATE: _("Can see templates"),
    CHANGE_TEMPLATE: _("Can change templates"),
    CHANGE_BRAND: _("Can change the times and windows of brands"),
}
REPLAY_FAILED = "fp_publisher_replay_failed"

PUBLICATION = Target(
    "publication", UUID, "publications", rows=Publication.objects.all, tenant="tenant",
    queue=config.QUEUE,
)  # fmt: skip
ACCOUNT = Target(
    "account", UUID, "accounts", rows=Account.objects.all, tenant="tenant", queue=config.QUEUE
)
BRAND = Target("brand", UUID, "brands", rows=Brand.objects.all, tenant="tenant", queue=config.QUEUE)
Token = Annotated[str, Field(min_length=1, max_length=10_000, description="the access token")]


@verb("publication.replay", on=PUBLICATION, permission=permissions.RETRY_JOB)
def replay(publication_id: UUID, *, by: By, reason: str) -> None:
    """Run the same failed publication again, under the same key: it cannot appear twice.

    One that is in doubt asks the provider first, and stays in doubt if that cannot tell.
    """
    with acting(replay, publication_id, by=by, reason=reason):
        row = PUBLICATION.locked(publication_id)
        access.require(by, row.brand_id, "editor")
        if row.status != Publication.Status.FAILED:
            fault = Fault("", f"it is {row.status}; only a failed publication can be replayed")
            raise Refused(REPLAY_FAILED, fault)
        if row.remote_id:
            raise Refused(REPLAY_FAILED, Fault("", "it has appeared already"))
        if plans.is_withdrawn(row):
            fault = Fault("", "its plan has changed since, or its slot has moved")
            raise Refused(REPLAY_FAILED, fault)
        if not row.content:
            raise Refused(REPLAY_FAILED, Fault("", "its text was deleted, as it is too old"))
        _revive(row, by, reason)


def _revive(row: Publication, by: By, reason: str) -> None:
    try:
        services.revive(row, by=by, reason=reason)
    except jobs.errors.NotAllowed as error:
        raise Refused(REPLAY_FAILED, Fault("", str(error))) from None


_DECISIONS: dict[str, Literal["resend", "did_not_happen", "assume_done"]] = {
    "appeared": "assume_done", "publish_again": "resend", "did_not_appear": "did_not_happen",
}  # fmt: skip


@verb("publication.settle", on=PUBLICATION, permission=permissions.RESOLVE_DOUBT)
def settle(
    publication_id: UUID,
    outcome: Annotated[
        Literal["appeared", "publish_again", "did_not_appear"],
        Field(description="what you have found on the channel"),
    ],
    *,
    by: By,
    reason: str,
    remote_id: Annotated[
        str, Field(max_length=191, description="the id of the post, if it has appeared")
    ] = "",
) -> None:
    """Decide about a publication that may or may not have appeared."""
    with acting(settle, publication_id, by=by, reason=reason) as act:
        row = PUBLICATION.locked(publication_id)
        access.require(by, row.brand_id, "editor")
        if row.reason != Publication.Reason.IN_DOUBT:
            raise Refused(REPLAY_FAILED, Fault("", "it is not in doubt"))
        act.note(outcome=outcome)
        until = max(row.publish_until, services.until_from_now())
        row.publish_until = until
        row.save(update_fields=["publish_until"])
        how = _DECISIONS[outcome]
        found = {"id": remote_id} if outcome == "appeared" else None
        try:
            effects.resolve_doubt(
                row.pk, publishing_key(row), how, by=by, reason=reason, outcome=found,
                expires=None if how == "did_not_happen" else until,
            )  # fmt: skip
        except (jobs.errors.UnknownTarget, jobs.errors.EffectError) as error:
            raise Refused(REPLAY_FAILED, Fault("", str(error))) from None


@verb("publication.cancel", on=PUBLICATION, permission=permissions.CANCEL_JOB)
def cancel(publication_id: UUID, *, by: By, reason: str) -> None:
    """Cancel a publication that waits."""
    with acting(cancel, publication_id, by=by, reason=reason):
        row = PUBLICATION.locked(publication_id)
        access.require(by, row.brand_id, "editor")
        if row.status != Publication.Status.PENDING:
            raise Refused(services.INVALID_JOB, Fault("", f"it is {row.status}"))
        services.cancel(row, by=by, reason=reason)


@verb("publication.move", on=PUBLICATION, permission=SCHEDULE)
def move(publication_id: UUID, at: datetime, *, by: By, reason: str = "") -> UUID:
    """Move a planned publication to another time, or back."""
    with acting(move, publication_id, by=by, reason=reason):
        row = PUBLICATION.locked(publication_id)
        access.require(by, row.brand_id, "editor")
        if row.status != Publication.Status.PENDING:
            raise Refused(services.INVALID_PLAN, Fault("at", f"it is {row.status}"))
        if at.utcoffset() is None:
            raise Refused(services.INVALID_PLAN, Fault("at", "needs a time zone"))
        if row.plan_version_id is not None:
            fault = Fault("at", "it belongs to a plan: move the slot of the plan")
            raise Refused(services.INVALID_PLAN, fault)
        # Moving needs no permission to cancel: the post stays scheduled.
        services.cancel(row, by=str(by), reason=reason or "moved")
        post = Content.model_validate(row.content)
        account = Account.objects.select_related("brand").get(pk=row.account_id)
        return services.schedule(account, post, at).row.pk


@verb("account.schedule", on=ACCOUNT, permission=SCHEDULE)
def schedule(
    account_id: UUID,
    at: datetime,
    *,
    by: By,
    caption: Annotated[str, Field(max_length=63_206)] = "",
    title: Annotated[str, Field(max_length=200, description="of a blog post")] = "",
    link: Annotated[str, Field(max_length=2000)] = "",
    image: Annotated[str, Field(max_length=2000, description="address of an image")] = "",
    video: Annotated[str, Field(max_length=2000, description="address of a video")] = "",
    first_comment: Annotated[str, Field(max_length=2200, description="on Instagram")] = "",
    assets: Annotated[
        list[UUID] | None, Field(max_length=10, description="images and videos that were uploaded")
    ] = None,
) -> UUID:
    """Schedule a post; the same text at the same time is one post, however often it is asked."""
    with acting(schedule, account_id, by=by) as act:
        row = Account.objects.select_related("brand").get(pk=ACCOUNT.locked(account_id).pk)
        access.require(by, row.brand_id, "approver")
        if at.utcoffset() is None:
            raise Refused(services.INVALID_PLAN, Fault("at", "needs a time zone"))
        media: list[dict[str, str]] = [{"asset": str(one)} for one in assets or ()]
        media += [
            {"url": url, "kind": kind} for url, kind in ((image, "image"), (video, "video")) if url
        ]
        post = Content.model_validate(
            {"caption": caption, "title": title, "link": link, "media": media,
             "ig_first_comment": first_comment}
        )  # fmt: skip
        made = services.schedule(row, post, at)
        act.note(publication=str(made.row.pk))
    return made.row.pk


@verb("account.reconnect", on=ACCOUNT, permission=MANAGE_ACCOUNT, group="administrator")
def reconnect(
    account_id: UUID, token: Token, *, by: By, reason: str,
    refresh_token: Annotated[str, Field(max_length=10_000)] = "",
) -> None:  # fmt: skip
    """Give an account a new token; its waiting posts follow within a minute."""
    with acting(reconnect, account_id, by=by, reason=reason) as act:
        row = ACCOUNT.locked(account_id)
        access.require(by, row.brand_id, "manager")
        act.changed({"status": row.status}, {"status": "connected"})
        given = services.credentials(row.channel, token, refresh_token or row.refresh_token)
        for name, value in given.items():
            setattr(row, name, value)
        row.status, row.expires_at = Account.Status.CONNECTED, None
        row.save(update_fields=[*given, "status", "expires_at"])


@verb("account.disable", on=ACCOUNT, permission=MANAGE_ACCOUNT, group="administrator")
def disable(account_id: UUID, *, by: By, reason: str) -> None:
    """Disable an account: its posts wait, and fail when their time is over."""
    with acting(disable, account_id, by=by, reason=reason) as act:
        row = ACCOUNT.locked(account_id)
        access.require(by, row.brand_id, "manager")
        act.changed({"status": row.status}, {"status": "disabled"})
        row.status = Account.Status.DISABLED
        row.save(update_fields=["status"])


@verb("brand.create", on=BRAND, permission=MANAGE_BRAND, group="administrator", new=True)
def create_brand(
    slug: Annotated[str, Field(max_length=60, description="lower case, such as acme-cafe")],
    name: Annotated[str, Field(min_length=1, max_length=150)],
    *,
    by: By,
    reason: str,
    time_zone: Annotated[str, Field(max_length=64)] = "UTC",
) -> Brand:
    """Create a brand; its slug never changes."""
    place = jobs.acts.Place(f"brand:{slug}", config.QUEUE)
    with acting(create_brand, by=by, reason=reason, place=place) as act:
        if time_zone not in available_timezones():
            raise Refused(services.INVALID_PLAN, Fault("time_zone", "is not a known time zone"))
        try:
            made = services.create_brand(slug, name, time_zone)
        except ValidationError as error:
            faults = [Fault(n, " ".join(m)) for n, m in error.message_dict.items()]
            raise Refused(services.INVALID_PLAN, *faults) from None
        act.concerns(made.pk)
    return made


@verb("brand.connect", on=BRAND, permission=MANAGE_ACCOUNT, group="administrator")
def connect(
    brand_id: UUID,
    channel: Name,
    name: Annotated[str, Field(min_length=1, max_length=150)],
    remote_account: Annotated[
        str,
        Field(min_length=1, max_length=200,
              description="id of the page, user or location; the user name on a blog or Bluesky"),
    ],
    token: Token,
    *,
    by: By,
    reason: str,
    base_url: Annotated[
        str, Field(max_length=500, description="address of the blog or of the server")
    ] = "",
    refresh_token: Annotated[str, Field(max_length=10_000)] = "",
) -> Account:  # fmt: skip
    """Connect an account by its token."""
    with acting(connect, brand_id, by=by, reason=reason) as act:
        brand = BRAND.locked(brand_id)
        access.require(by, brand.pk, "manager")
        if connectors.of(channel).needs_address and not base_url:
            raise Refused(services.INVALID_PLAN, Fault("base_url", "is needed on this channel"))
        try:
            if base_url:
                http.check(base_url)
        except http.Blocked as error:
            raise Refused(services.INVALID_PLAN, Fault("base_url", str(error))) from None
        made, is_new = Account.objects.get_or_create(
            brand=brand, channel=channel, remote_account=remote_account, base_url=base_url,
            defaults={"tenant": brand.tenant, "name": name,
                      **services.credentials(channel, token, refresh_token)},
        )  # fmt: skip
        if not is_new:
            fault = Fault("remote_account", "is connected already; reconnect it instead")
            raise Refused(services.INVALID_PLAN, fault)
        made.text_limit = connectors.of(channel).longest(base_url)
        made.save(update_fields=["text_limit"])
        act.note(account=str(made.pk), channel=channel)
    return made

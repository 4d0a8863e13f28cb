"""Verbs on emails, suppressed addresses and companies, for the admin, the API and the CLI."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext_lazy as _
from pydantic import Field

import jobs
from emailgw import addresses, companies, states, suppressions
from emailgw.clock import now
from emailgw.config import EMAIL_JOB_CONFIG, TTL
from emailgw.errors import Refused
from emailgw.models import Company, EmailEvent, OutboxEmail, Status, Suppression
from emailgw.permissions import acting, name_of, require
from emailgw.pipeline import EFFECT
from jobs.fields import mask_email, redact_text
from jobs.verbs import By, Target, permissions, verb

VIEW_EMAIL = "emailgw.view_outboxemail"
VIEW_COMPANY = "emailgw.view_company"
VIEW_SUPPRESSION = "emailgw.view_suppression"
CHANGE_COMPANY = "emailgw.change_company"
CHANGE_SUPPRESSION = "emailgw.change_suppression"
REVEAL_RECIPIENT = "emailgw.reveal_recipient"
PERMISSIONS = {
    VIEW_EMAIL: _("Can see emails"),
    VIEW_COMPANY: _("Can see companies"),
    CHANGE_COMPANY: _("Can create, change and suspend companies"),
    VIEW_SUPPRESSION: _("Can see the suppression list"),
    CHANGE_SUPPRESSION: _("Can change the suppression list"),
    REVEAL_RECIPIENT: _("Can see recipients in clear"),
}
"""Permissions of the gateway, in addition to the platform's."""

_QUEUE: str = EMAIL_JOB_CONFIG.QUEUE_NAME
EMAIL = Target(
    "email", UUID, "emails", rows=OutboxEmail.objects.all, tenant="company_id", queue=_QUEUE
)
COMPANY = Target("company", UUID, "companies", rows=Company.objects.all, tenant="id", queue=_QUEUE)
SUPPRESSION = Target(
    "suppression", UUID, "suppressions", rows=Suppression.objects.all, tenant="company_id",
    queue=_QUEUE,
)  # fmt: skip
Address = Annotated[str, Field(max_length=254, description="an email address")]
OfCompany = Annotated[UUID | None, Field(description="the company; omit it for all companies")]


# ---- emails


@dataclass(frozen=True, slots=True)
class Revealed:
    """The recipient of an email, unmasked."""

    to: str = field(repr=False)
    cc: tuple[str, ...] = field(repr=False)
    bcc: tuple[str, ...] = field(repr=False)
    subject: str = field(repr=False)
    nome: str = field(repr=False)
    razao_social: str = field(repr=False)
    cpf_cnpj: str = field(repr=False)


@verb("email.reveal", on=EMAIL, permission=REVEAL_RECIPIENT, group="administrator")
def reveal(outbox_id: UUID, *, by: By, reason: str) -> Revealed:
    """Show the recipient of an email unmasked; the access and its reason are audited."""
    row = OutboxEmail.objects.select_related("recipient").filter(pk=outbox_id).first()
    if row is None:
        raise Refused("NOT_FOUND", "there is no such email")
    with acting(reveal, outbox_id, company=row.company_id, by=by, reason=reason):
        recipient = row.recipient
        return Revealed(
            row.to, tuple(row.cc), tuple(row.bcc), row.subject, recipient.nome or "",
            recipient.razao_social or "", recipient.cpf_cnpj or "",
        )  # fmt: skip


@verb(
    "email.resend",
    on=EMAIL,
    permission=permissions.RETRY_JOB,
    also=(permissions.RESOLVE_DOUBT,),
)
def resend(
    outbox_id: UUID,
    *,
    by: By,
    reason: str,
    even_if_sent: Annotated[
        bool, Field(description="send it even if it may already have been sent")
    ] = False,
) -> None:
    """Send a failed or expired email again.

    It gets a new day before it expires. For an email in doubt the provider's events are checked
    first, and it stays in doubt if there are none; ``even_if_sent`` sends it anyway. An email that
    was sent is never sent again. The audit records a retry of its job. Raises Refused.
    """
    company = OutboxEmail.objects.filter(pk=outbox_id).values_list("company_id", flat=True).first()
    permission = permissions.RESOLVE_DOUBT if even_if_sent else permissions.RETRY_JOB
    name = require(by, permission, company, reason)
    reason = redact_text(reason)
    with transaction.atomic():
        row = OutboxEmail.objects.select_for_update(no_key=True).filter(pk=outbox_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "there is no such email")
        if row.status not in (Status.FAILED, Status.EXPIRED) and not row.in_doubt:
            raise Refused("CONFLICT", f"it is {row.status}")
        if even_if_sent and not row.in_doubt:
            raise Refused("CONFLICT", "it is not in doubt")
        row.expires_at = now() + timedelta(seconds=TTL)
        was_in_doubt, row.in_doubt = row.in_doubt, False
        row.save(update_fields=["expires_at", "in_doubt"])
        if not was_in_doubt:
            states.outbox.move(row, Status.ENQUEUED, by=name, why=reason)
        EmailEvent.objects.create(
            outbox=row, type="RESEND", source=name,
            detail={"reason": reason[:200], "evenIfSent": even_if_sent},
        )  # fmt: skip
        _try_again(row, by, reason, even_if_sent)


def _try_again(row: OutboxEmail, by: By, reason: str, even_if_sent: bool) -> None:
    """Retry the job; ``even_if_sent`` resolves only the current doubt."""
    try:
        if even_if_sent:
            done = jobs.effects.resolve_doubt(
                row.pk, EFFECT, "resend", by=by, reason=reason, expires=row.expires_at
            )
            if done.retried:
                return
        jobs.retry(row.pk, by=by, reason=reason, expires=row.expires_at)
    except (jobs.errors.UnknownTarget, jobs.errors.UnknownJob):
        raise Refused("CONFLICT", "its job was deleted; submit the email again") from None
    except (jobs.errors.NotAllowed, jobs.errors.EffectError) as error:
        raise Refused("CONFLICT", str(error)) from None


# ---- the suppression list


@verb("suppression.add", on=SUPPRESSION, permission=CHANGE_SUPPRESSION, new=True)
def add_suppression(
    company: OfCompany,
    email: Address,
    *,
    by: By,
    reason: str,
    until: Annotated[
        datetime | None, Field(description="end of the suppression, such as 2030-01-31T18:00Z")
    ] = None,
) -> Suppression:
    """Add an address to the suppression list.

    Raises Refused.
    """
    with acting(add_suppression, None, company=company, by=by, reason=reason) as act:
        email = email.strip().lower()
        if problem := addresses.address_problem(email):
            raise Refused("VALIDATION_ERROR", problem, "email")
        if until is not None and until <= now():
            raise Refused("VALIDATION_ERROR", "must be in the future", "until")
        made = suppressions.suppress(
            company, email, Suppression.Reason.MANUAL, by=name_of(by), note=act.reason[:300],
            until=until,
        )  # fmt: skip
        act.concerns(made.pk)
        act.note(address=mask_email(email))
    return made


@verb("suppression.lift", on=SUPPRESSION, permission=CHANGE_SUPPRESSION, new=True)
def lift_suppression(company: OfCompany, email: Address, *, by: By, reason: str) -> None:
    """Remove an address from the suppression list.

    Raises Refused if it is not on the list.
    """
    with acting(lift_suppression, None, company=company, by=by, reason=reason) as act:
        act.note(address=mask_email(email))
        if not suppressions.lift(company, email):
            raise Refused("NOT_FOUND", "the address is not on the list")


# ---- companies

Name = Annotated[str, Field(max_length=150)]
Sender = Annotated[
    str, Field(max_length=254, description="address of the sender, in one of the verified domains")
]
Domains = Annotated[
    list[str], Field(max_length=100, description="domains that the company has proved to own")
]
ReplyDomains = Annotated[
    list[str],
    Field(max_length=100, description="more domains for Reply-To; * allows any"),
]
Provider = Annotated[
    str, Field(max_length=60, description="one of EMAILGW['PROVIDERS']; empty for the default")
]
InDoubt = Annotated[
    Literal["park", "resend"],
    Field(description="an email that may have been sent waits for a person, or is sent again"),
]
Limit = Annotated[int, Field(ge=0, le=companies.LIMIT_MAX, description="maximum number of emails")]


@verb("company.create", on=COMPANY, permission=CHANGE_COMPANY, group="administrator", new=True)
def create_company(
    name: Name,
    sender: Sender,
    *,
    by: By,
    reason: str,
    domains: Domains | None = None,
    reply_domains: ReplyDomains | None = None,
    provider: Provider = "",
    in_doubt: InDoubt = "park",
    per_minute: Limit = 100,
    per_hour: Limit = 2000,
    per_day: Limit = 1000,
) -> Company:
    """Create a company, which can send at once; its id is its tenant.

    Without domains, that of the sender counts as verified. Raises Refused.
    """
    with acting(create_company, None, company=None, by=by, reason=reason) as act:
        row = Company(from_domains=[addresses.domain_of(sender.strip())])
        given = {
            "name": name, "sender": sender, "domains": domains or None,
            "reply_domains": reply_domains, "provider": provider, "in_doubt": in_doubt,
            "per_minute": per_minute, "per_hour": per_hour, "per_day": per_day,
        }  # fmt: skip
        companies.assign(row, given)
        row.save(force_insert=True)
        act.concerns(row.pk)
        act.changed({}, {column: getattr(row, column) for column in companies.COLUMNS.values()})
    return row


@verb("company.edit", on=COMPANY, permission=CHANGE_COMPANY, group="administrator")
def edit_company(
    company_id: UUID,
    *,
    by: By,
    reason: str,
    name: Name | None = None,
    sender: Sender | None = None,
    domains: Domains | None = None,
    reply_domains: ReplyDomains | None = None,
    provider: Provider | None = None,
    in_doubt: InDoubt | None = None,
    per_minute: Limit | None = None,
    per_hour: Limit | None = None,
    per_day: Limit | None = None,
) -> None:
    """Change a company; what is not given stays."""
    given = {
        "name": name, "sender": sender, "domains": domains or None, "reply_domains": reply_domains,
        "provider": provider, "in_doubt": in_doubt, "per_minute": per_minute,
        "per_hour": per_hour, "per_day": per_day,
    }  # fmt: skip
    with acting(edit_company, company_id, company=company_id, by=by, reason=reason) as act:
        row = Company.objects.select_for_update(no_key=True).filter(pk=company_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "there is no such company")
        before = {column: getattr(row, column) for column in companies.COLUMNS.values()}
        changed = companies.assign(row, given)
        row.save(update_fields=[*changed])
        act.changed({column: before[column] for column in changed}, changed)


@verb("company.suspend", on=COMPANY, permission=CHANGE_COMPANY, group="administrator")
def suspend(company_id: UUID, *, by: By, reason: str) -> None:
    """Suspend a company: refuse its new emails and fail those that are waiting."""
    _set_suspended(company_id, True, by, reason)


@verb("company.admit", on=COMPANY, permission=CHANGE_COMPANY, group="administrator")
def admit(company_id: UUID, *, by: By, reason: str) -> None:
    """Allow a suspended company to send again."""
    _set_suspended(company_id, False, by, reason)


def _set_suspended(company_id: UUID, suspended: bool, by: By, reason: str) -> None:
    function = suspend if suspended else admit
    with acting(function, company_id, company=company_id, by=by, reason=reason) as act:
        row = Company.objects.select_for_update(no_key=True).filter(pk=company_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "there is no such company")
        act.changed({"suspended": row.is_suspended}, {"suspended": suspended})
        row.is_suspended = suspended
        row.save(update_fields=["is_suspended"])

"""Mail to those who look after a brand: one for each event and person, and a digest of alerts."""

from __future__ import annotations

import smtplib
import uuid
from collections.abc import Iterator
from typing import Any

from django.contrib.auth import get_user_model
from django.core import mail
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

import jobs
from jobs import acts, effects, events
from publisher import alerts, channels, config
from publisher.models import Account, Member, Publication, Refusal
from publisher.payloads import Digest, Tell
from publisher.verbs import MANAGE_ACCOUNT

WORTH_A_MAIL = (
    "publisher.publication.failed",
    "publisher.publication.in_doubt",
    "publisher.account.needs_reconnect",
)
_UNSENT = (
    ConnectionRefusedError, smtplib.SMTPConnectError, smtplib.SMTPAuthenticationError,
    smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPHeloError,
)  # fmt: skip
"""After these, the server has certainly not taken the mail."""


def managers(tenant: str) -> Iterator[Any]:
    """Yield the managers of a brand who have an email address."""
    members = Member.objects.filter(tenant=tenant)
    is_manager = Q(pk__in=members.filter(role=Member.Role.MANAGER).values("user_id")) | Q(
        ~Q(pk__in=members.values("user_id")), is_superuser=True
    )
    users = get_user_model()._default_manager.filter(is_manager, is_active=True)
    for user in users.exclude(email="").order_by("pk"):
        who = acts.of_user(user, via="mail")
        if who.may(MANAGE_ACCOUNT) and who.scope.covers(tenant, config.QUEUE):
            yield user


def staff() -> Iterator[Any]:
    """Yield the staff who manage the accounts of every brand and have an email address."""
    users = get_user_model()._default_manager.filter(is_active=True, is_staff=True)
    for user in users.exclude(email="").order_by("pk"):
        who = acts.of_user(user, via="mail")
        if who.may(MANAGE_ACCOUNT) and who.scope.tenants is None:
            yield user


@events.subscriber("publisher.client.refused", name="publisher-client-mail")
def announce_client(event: events.Event) -> None:
    """Enqueue a mail to each of the staff, in the transaction that publishes the event."""
    for user in staff():
        told = Tell(topic=event.topic, user=str(user.pk), channel=event.payload["channel"])
        jobs.enqueue(told, job_id=uuid.uuid5(event.id, str(user.pk)))


@events.subscriber(*WORTH_A_MAIL, name="publisher-mail")
def announce(event: events.Event) -> None:
    """Enqueue a mail to each manager, in the transaction that publishes the event."""
    if event.payload.get("reason") == Publication.Reason.CANCELLED:
        return  # somebody did it
    for user in managers(event.tenant):
        told = Tell(topic=event.topic, user=str(user.pk), **_subject_of(event))
        jobs.enqueue(told, job_id=uuid.uuid5(event.id, str(user.pk)), tenant=event.tenant)


def _subject_of(event: events.Event) -> dict[str, Any]:
    names = ("publication", "account")
    return {name: uuid.UUID(event.payload[name]) for name in names if name in event.payload}


def tell(ctx: jobs.Context, payload: Tell) -> None:
    """Send a mail about one event."""
    user = _user(payload.user)
    if user is None:
        return
    if payload.publication is not None:
        row = Publication.objects.select_related("brand", "account").get(pk=payload.publication)
        _send(ctx, user, *_about_post(row))
    elif payload.account is not None:
        account = Account.objects.select_related("brand").get(pk=payload.account)
        _send(ctx, user, *_about_account(account))
    elif payload.channel:
        _send(ctx, user, *_about_client(payload.channel))


def _about_client(channel: str) -> tuple[str, list[str]]:
    label = channels.label(channel)
    title = _("%(channel)s refuses this project's client") % {"channel": label}
    advice = _("All its posts wait until the id and the secret of the client are right.")
    row = Refusal.objects.filter(channel=channel).first()
    facts = [_("Error: %(code)s") % {"code": row.code}] if row else []
    names = config.CLIENTS[channel]
    variables = _("They are in %(names)s.") % {"names": ", ".join(names)}
    return title, [advice, variables, *facts]


def _about_post(row: Publication) -> tuple[str, list[str]]:
    what = {"account": row.account.name, "brand": row.brand.name}
    if row.reason == Publication.Reason.IN_DOUBT:
        title = _("A post of %(brand)s on %(account)s is in doubt") % what
        advice = _("Look whether it has appeared, and settle it on its page.")
    else:
        title = _("A post of %(brand)s on %(account)s has failed") % what
        advice = _("Its page says why, and offers to replay it.")
    facts = [str(row.get_reason_display()), row.error, f"{row.scheduled_at:%Y-%m-%d %H:%M} UTC"]
    return title, [advice, *filter(None, facts), _("Publication: %(id)s") % {"id": row.pk}]


def _about_account(row: Account) -> tuple[str, list[str]]:
    what = {"account": row.name, "brand": row.brand.name}
    title = _("%(account)s of %(brand)s needs reconnecting") % what
    advice = _("Its posts wait until it has a new token. Reconnect it on its page.")
    return title, [advice, _("Account: %(id)s") % {"id": row.pk}]


def digest(ctx: jobs.Context, payload: Digest) -> int:
    """Send one person the alerts of a period; without one, let everybody concerned have them."""
    found = alerts.of(payload.period, Account.objects.all())
    if payload.user:
        _send_digest(ctx, payload, found)
        return 1
    people = {user.pk for brand in {one.brand for one in found} for user in managers(tenant(brand))}
    with transaction.atomic():
        ctx.fence()
        for pk in people:
            job_id = uuid.uuid5(ctx.job_id, str(pk))  # the same if this runs again
            if not jobs.Job.objects.filter(pk=job_id).exists():
                jobs.enqueue(Digest(period=payload.period, user=str(pk)), job_id=job_id)
    return len(people)


def tenant(slug: str) -> str:
    """Return the tenant of a brand."""
    return f"brand:{slug}"


def _send_digest(ctx: jobs.Context, payload: Digest, found: list[alerts.Alert]) -> None:
    user = _user(payload.user)
    if user is None:
        return
    scope = acts.of_user(user, via="mail").scope
    mine = [one for one in found if scope.covers(tenant(one.brand), config.QUEUE)]
    if mine:
        title = _("Alerts of the publisher: %(count)s") % {"count": len(mine)}
        _send(ctx, user, title, [line(one) for one in mine])


def line(alert: alerts.Alert) -> str:
    """Return an alert in words."""
    what = {"account": alert.name, "brand": alert.brand, "count": alert.count}
    words = {
        "needs_reconnect": _("%(brand)s, %(account)s: needs reconnecting"),
        "client_refused": _("%(brand)s, %(account)s: the provider refuses this project's client"),
        "token_expires": _("%(brand)s, %(account)s: its token expires within seven days"),
        "failed": _("%(brand)s, %(account)s: %(count)s posts failed within seven days"),
        "nothing_planned": _("%(brand)s, %(account)s: nothing is planned for seven days"),
    }
    return words[alert.kind] % what


def _user(pk: str) -> Any:
    """Return a user who still manages accounts, or None."""
    users = get_user_model()._default_manager
    user = users.filter(pk=pk, is_active=True).exclude(email="").first()
    if user is None or not acts.of_user(user, via="mail").may(MANAGE_ACCOUNT):
        return None
    return user


def _send(ctx: jobs.Context, user: Any, title: str, lines: list[str]) -> None:
    """Send a mail, at most once: what may have been sent is not sent again."""

    def call() -> None:
        mail.EmailMessage(title, "\n\n".join(lines) + "\n", to=[user.email]).send()

    ctx.effect("mail", call, probe=lambda intent: effects.Happened(None), definite=_UNSENT)

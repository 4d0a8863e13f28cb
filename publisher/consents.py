"""Connecting accounts by consent: asked once, answered once, then a person chooses the account."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from django.db import transaction
from pydantic import Field

from jobs import http
from jobs.verbs import By, Principal, Target, acting, verb
from publisher import access, config, oauth, services
from publisher.clock import now
from publisher.errors import Fault, ProviderError, Refused, Unclear
from publisher.models import Account, Brand, Consent
from publisher.verbs import MANAGE_ACCOUNT

LASTS = timedelta(minutes=10)
"""For so long a person may take at the provider, and then to choose."""
CONSENT = Target(
    "consent", UUID, "consents", rows=Consent.objects.all, tenant="tenant", queue=config.QUEUE
)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def ask(brand: Brand, channel: str, by: Principal, session: str, back: str) -> str:
    """Return where the person consents; raise Refused where nobody can be asked."""
    if channel not in oauth.SERVICES:
        raise Refused(services.INVALID_CHANNEL, Fault("channel", "is not connected by consent"))
    access.require(by, brand.pk, "manager")
    if missing := oauth.missing(channel):
        words = f"set {' and '.join(missing)} first"
        raise Refused(services.INVALID_PLAN, Fault("", words))
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    Consent.objects.create(
        brand=brand, tenant=brand.tenant, channel=channel, user_id=by.user_id,
        state=_digest(state), session=_digest(session), secrets={"verifier": verifier},
    )  # fmt: skip
    return oauth.address(channel, state, verifier, back)


def answered(state: str, session: str, user_id: Any) -> Consent:
    """Return what was asked with this state; raise Refused unless it is this person's, and new."""
    with transaction.atomic():
        rows = Consent.objects.select_for_update(of=("self",), no_key=True).select_related("brand")
        row = rows.filter(state=_digest(state), user_id=user_id, is_answered=False).first()
        is_ours = row is not None and secrets.compare_digest(row.session, _digest(session))
        if row is None or not is_ours or row.created_at < now() - LASTS:
            words = "this answer is not expected, or came too late: connect again"
            raise Refused(services.INVALID_PLAN, Fault("", words))
        row.is_answered = True
        row.save(update_fields=["is_answered"])
    return row


def open_accounts(row: Consent, code: str, back: str) -> None:
    """Keep the accounts that the code opens; raise Refused if there are none."""
    try:
        found = oauth.exchanged(row.channel, code, str(row.secrets.get("verifier", "")), back)
    except ProviderError as error:
        raise Refused(services.INVALID_PLAN, Fault("", f"it was refused ({error.code})")) from None
    except (Unclear, http.HttpError):
        words = "the provider did not answer: connect again"
        raise Refused(services.INVALID_PLAN, Fault("", words)) from None
    known = [
        {**one, "id": str(one["id"])[:200], "name": str(one.get("name") or one["id"])[:150]}
        for one in found
        if one.get("id") and one.get("token")
    ]
    if not known:
        words = "the person has no account there on which posts can be published"
        raise Refused(services.INVALID_PLAN, Fault("", words))
    row.secrets = {"accounts": known}
    row.save(update_fields=["secrets"])


def choices(row: Consent) -> dict[str, str]:
    """Return the accounts that can be connected, by their ids."""
    return {one["id"]: one["name"] for one in row.secrets.get("accounts", ())}


@verb("consent.connect", on=CONSENT, permission=MANAGE_ACCOUNT, group="administrator")
def connect(
    consent_id: UUID,
    account: Annotated[str, Field(min_length=1, max_length=200, description="one that was found")],
    *,
    by: By,
) -> Account:
    """Connect an account that a person's consent has opened, or reconnect it."""
    with acting(connect, consent_id, by=by) as act:
        row = CONSENT.locked(consent_id)
        access.require(by, row.brand_id, "manager")
        chosen = [one for one in row.secrets.get("accounts", ()) if one["id"] == account]
        is_ours = not isinstance(by, Principal) or str(by.user_id) == str(row.user_id)
        if not chosen or not is_ours or row.created_at < now() - 2 * LASTS:
            words = "is none that was found, or the consent is too old: connect again"
            raise Refused(services.INVALID_PLAN, Fault("account", words))
        made = _connected(row, chosen[0])
        row.secrets = {}
        row.save(update_fields=["secrets"])
        act.note(account=str(made.pk), channel=row.channel)
    return made


def _connected(row: Consent, found: oauth.Found) -> Account:
    """Return the account with its new tokens; what waits for it follows."""
    same = {"brand_id": row.brand_id, "channel": row.channel, "remote_account": found["id"]}
    known = Account.objects.select_for_update().filter(**same, base_url="").first()
    made = known or Account(**same, tenant=row.tenant, name=found["name"])
    made.token = found["token"]
    made.refresh_token = found.get("refresh_token") or made.refresh_token
    seconds = found.get("expires_in")
    made.expires_at = None if seconds is None else now() + timedelta(seconds=seconds)
    made.status = Account.Status.CONNECTED
    made.save()
    return made

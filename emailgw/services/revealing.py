"""What is masked everywhere, in clear: for whoever may, says why, and is written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from emailgw.errors import Refused
from emailgw.models import OutboxEmail
from emailgw.people import acting

if TYPE_CHECKING:
    from jobs.acts import By


@dataclass(frozen=True, slots=True)
class Revealed:
    """Whom an email is meant for."""

    to: str = field(repr=False)
    cc: tuple[str, ...] = field(repr=False)
    bcc: tuple[str, ...] = field(repr=False)
    subject: str = field(repr=False)
    nome: str = field(repr=False)
    razao_social: str = field(repr=False)
    cpf_cnpj: str = field(repr=False)


def reveal(outbox_id: UUID, *, by: By, reason: str) -> Revealed:
    """The recipient in clear; raises Refused. The audit says who looked, when and why."""
    row = OutboxEmail.objects.select_related("recipient").filter(pk=outbox_id).first()
    if row is None:
        raise Refused("NOT_FOUND", "there is no such email")
    with acting(
        "email.reveal", kind="email", id=outbox_id, company=row.company_id,
        permission="reveal_recipient", by=by, reason=reason,
    ):  # fmt: skip
        who = row.recipient
        return Revealed(
            row.to, tuple(row.cc), tuple(row.bcc), row.subject, who.nome or "",
            who.razao_social or "", who.cpf_cnpj or "",
        )  # fmt: skip

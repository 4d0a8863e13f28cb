"""Recipients: one row for whom a company knows by an identifier and an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from emailgw.documents import document_hash
from emailgw.models import Recipient
from emailgw.requests import EmailRequest
from jobs.fields import Unopened, index_of

_SELECT = """SELECT id, email_index, cpf_cnpj_hash, razao_social, nome,
    deleted_at IS NOT NULL AS is_deleted FROM emailgw_recipient WHERE company_id = $1::uuid"""
WAYS = {
    "external": f"{_SELECT} AND external_id = $5 ORDER BY id",
    "document": f"{_SELECT} AND cpf_cnpj_hash = $5 AND email_index = $6 AND deleted_at IS NULL "
    "ORDER BY id",
    "address": f"{_SELECT} AND email_index = $5 AND external_id IS NULL AND cpf_cnpj_hash IS NULL "
    "AND deleted_at IS NULL ORDER BY id",
}
"""How a recipient is looked for, by what the sender says of it."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Whom an email is for, as the table knows it."""

    company: UUID
    way: str
    values: tuple[str, ...]
    email_index: str
    document: str | None


def sought(company: UUID, asked: EmailRequest) -> Sought:
    """How the recipient is looked for."""
    given = asked.recipient
    address = index_of(Recipient, "email_index", asked.to, company)
    number = document_hash(given.cpfCnpj, company) if given.cpfCnpj else None
    if given.externalId:
        return Sought(company, "external", (given.externalId,), address, number)
    if number:
        return Sought(company, "document", (number, address), address, number)
    return Sought(company, "address", (address,), address, number)


@dataclass(frozen=True, slots=True)
class Found:
    """The row that was found, as far as it says whether it is up to date; sealed as it is."""

    id: UUID
    email_index: str
    cpf_cnpj_hash: str | None
    razao_social: str | None
    nome: str | None
    is_deleted: bool
    sought: Sought

    def is_current(self, asked: EmailRequest) -> bool:
        """Whether it says all that the request does."""
        given, number = asked.recipient, self.sought.document
        return (
            not self.is_deleted
            and number in (None, self.cpf_cnpj_hash)
            and self._is("razao_social", self.razao_social, given.razaoSocial)
            and self._is("nome", self.nome, given.nome)
        )

    def _is(self, column: str, sealed: str | None, said: str | None) -> bool:
        if not said:
            return True
        field: Any = Recipient._meta.get_field(column)
        place = field.place_of(self.id, self.sought.company)
        return sealed is not None and field.open(Unopened(sealed), place) == said


def recipient_of(
    company: UUID, asked: EmailRequest, found: Found | None
) -> tuple[UUID, Recipient | None]:
    """The id of the company's recipient, up to date, and its row where that is to be written.

    Who has got another address is another row from then on, so that what is under way to the old
    one still says whom it was meant for.
    """
    given = asked.recipient
    said = {"cpf_cnpj": given.cpfCnpj, "razao_social": given.razaoSocial, "nome": given.nome}
    if found is not None and found.email_index != found.sought.email_index:
        Recipient.objects.filter(pk=found.id).update(external_id=None)
        found = None
    if found is None:
        row = Recipient(
            company_id=company, external_id=given.externalId, email=asked.to, **_given(said)
        )
        return row.id, row
    if not found.is_current(asked):
        row = Recipient.objects.get(pk=found.id)
        for name, value in _given(said).items():
            setattr(row, name, value)
        row.deleted_at = None
        row.save()
    return found.id, None


def _given(said: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in said.items() if value}

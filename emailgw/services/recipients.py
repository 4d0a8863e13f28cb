"""Recipients: find the row of a company's recipient, and keep it up to date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F

from emailgw.documents import document_hash
from emailgw.models import Recipient
from emailgw.requests import EmailRequest
from jobs.fields import Unopened, index_of

CONDITIONS = {
    "external_id": "external_id = %(external_id)s",
    "document": "cpf_cnpj_hash = %(document)s AND email_index = %(address)s AND deleted_at IS NULL",
    "address": "email_index = %(address)s AND external_id IS NULL AND cpf_cnpj_hash IS NULL "
    "AND deleted_at IS NULL",
}
"""SQL conditions that identify a recipient, by the identifier that the sender gave."""


@dataclass(frozen=True, slots=True)
class RecipientQuery:
    """How to find the recipient of a request: a key of CONDITIONS and its parameters."""

    company: UUID
    by: str
    values: dict[str, str]
    email_index: str
    document: str | None

    def match(self, row: dict[str, Any]) -> Match:
        """Convert a row of the database."""
        return Match(**{**row, "id": UUID(row["id"]), "query": self})


def query(company: UUID, asked: EmailRequest) -> RecipientQuery:
    """Build the query for the recipient of a request."""
    given = asked.recipient
    address = index_of(Recipient, "email_index", asked.to, company)
    number = document_hash(given.cpfCnpj, company) if given.cpfCnpj else None
    if given.externalId:
        values = {"external_id": given.externalId}
        return RecipientQuery(company, "external_id", values, address, number)
    if number:
        values = {"document": number, "address": address}
        return RecipientQuery(company, "document", values, address, number)
    return RecipientQuery(company, "address", {"address": address}, address, number)


@dataclass(frozen=True, slots=True)
class Match:
    """A recipient's row; encrypted columns are still encrypted."""

    id: UUID
    email_index: str
    cpf_cnpj_hash: str | None
    razao_social: str | None
    nome: str | None
    is_deleted: bool
    query: RecipientQuery

    def is_current(self, asked: EmailRequest) -> bool:
        """Return whether the row already has all values of the request."""
        given, number = asked.recipient, self.query.document
        return (
            not self.is_deleted
            and number in (None, self.cpf_cnpj_hash)
            and self._equals("razao_social", self.razao_social, given.razaoSocial)
            and self._equals("nome", self.nome, given.nome)
        )

    def _equals(self, column: str, encrypted: str | None, value: str | None) -> bool:
        if not value:
            return True
        field: Any = Recipient._meta.get_field(column)
        place = field.place_of(self.id, self.query.company)
        return encrypted is not None and field.open(Unopened(encrypted), place) == value


def update_or_build(
    company: UUID, asked: EmailRequest, match: Match | None
) -> tuple[UUID, Recipient | None]:
    """Bring the matching row up to date, or build a new one for the caller to insert.

    Return the recipient's id, and the row if it is new. A recipient whose address changed gets a
    new row, so that emails to the old address keep theirs.
    """
    given = asked.recipient
    values = {"cpf_cnpj": given.cpfCnpj, "razao_social": given.razaoSocial, "nome": given.nome}
    if match is not None and match.email_index != match.query.email_index:
        Recipient.objects.filter(pk=match.id).update(
            external_id=None, former_external_id=F("external_id")
        )
        match = None
    if match is None:
        row = Recipient(
            company_id=company, external_id=given.externalId, email=asked.to, **_given(values)
        )
        return row.id, row
    if not match.is_current(asked):
        row = Recipient.objects.get(pk=match.id)
        for name, value in _given(values).items():
            setattr(row, name, value)
        row.deleted_at = None
        row.save()
    return match.id, None


def _given(values: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}

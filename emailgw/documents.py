"""CPF and CNPJ: check digits, spelling, and the keyed hash by which they are found."""

from __future__ import annotations

from uuid import UUID

from validate_docbr import CNPJ, CPF

from jobs.fields import blind_index, normalise_document

PURPOSE = "emailgw.cpf_cnpj"


def document_problem(number: str) -> str:
    """Why this is neither a CPF nor a CNPJ, with digits or with letters; empty when it is one."""
    plain = normalise_document(number)
    if len(plain) == 11 and plain.isdigit() and CPF().validate(plain):
        return ""
    if len(plain) == 14 and plain[-2:].isdigit() and CNPJ().validate(plain):
        return ""
    return "must be a valid CPF or CNPJ"


def document_hash(number: str, company: UUID) -> str:
    """64 hex digits: HMAC-SHA256 of the normalised number, another one for every company."""
    return blind_index(normalise_document(number), PURPOSE, str(company))

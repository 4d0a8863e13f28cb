"""CPF and CNPJ: validation, and the keyed hash used to look them up."""

from __future__ import annotations

from uuid import UUID

from validate_docbr import CNPJ, CPF

from jobs.fields import blind_index, normalise_document

PURPOSE = "emailgw.cpf_cnpj"


def document_problem(number: str) -> str:
    """Return why this is not a valid CPF or CNPJ (numeric or alphanumeric); empty if it is one."""
    plain = normalise_document(number)
    if len(plain) == 11 and plain.isdigit() and CPF().validate(plain):
        return ""
    if len(plain) == 14 and plain[-2:].isdigit() and CNPJ().validate(plain):
        return ""
    return "must be a valid CPF or CNPJ"


def document_hash(number: str, company: UUID) -> str:
    """Return the HMAC-SHA256 of the normalised number in hex, different for each company."""
    return blind_index(normalise_document(number), PURPOSE, str(company))

"""Recipients: one row for whom a company knows by an identifier and an address."""

from __future__ import annotations

from emailgw.documents import document_hash
from emailgw.models import Company, Recipient
from emailgw.requests import EmailRequest
from jobs.fields import index_of


def recipient_of(company: Company, asked: EmailRequest) -> Recipient:
    """The company's recipient with this identifier and address, up to date.

    Who has got another address is another row from then on, so that what is under way to the old
    one still says whom it was meant for.
    """
    given = asked.recipient
    address = index_of(Recipient, "email_index", asked.to, company.pk)
    rows = Recipient.objects.select_for_update(no_key=True).filter(company=company)
    if given.externalId:
        found = rows.filter(external_id=given.externalId).first()
        if found is not None and found.email_index != address:
            found.external_id = None
            found.save(update_fields=["external_id"])
            found = None
    elif given.cpfCnpj:
        number = document_hash(given.cpfCnpj, company.pk)
        found = rows.filter(cpf_cnpj_hash=number, email_index=address, deleted_at=None).first()
    else:
        found = rows.filter(
            email_index=address, external_id=None, cpf_cnpj_hash=None, deleted_at=None
        ).first()
    row = found or Recipient(company=company, external_id=given.externalId, email=asked.to)
    wanted = {
        "cpf_cnpj": given.cpfCnpj, "razao_social": given.razaoSocial, "nome": given.nome
    }  # fmt: skip
    changed = [name for name, value in wanted.items() if value and getattr(row, name) != value]
    for name in changed:
        setattr(row, name, wanted[name])
    if found is None or changed or row.deleted_at is not None:
        row.deleted_at = None
        row.save()
    return row

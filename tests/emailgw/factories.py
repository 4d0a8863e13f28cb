"""Companies and requests for tests."""

from __future__ import annotations

from typing import Any

from emailgw.models import Company

CPF = "529.982.247-25"
CNPJ = "12.ABC.345/01DE-35"


def company(name: str = "Acme", **fields: Any) -> Company:
    """A company that may send from acme.test."""
    return Company.objects.create(
        **{
            "name": name,
            "default_from": "billing@acme.test",
            "from_domains": ["acme.test"],
            "per_minute": 100_000,
            "per_hour": 100_000,
            "per_day": 100_000,
            **fields,
        }
    )


def request(**fields: Any) -> dict[str, Any]:
    """An email that nobody could object to."""
    return {
        "to": "ana@customers.test",
        "subject": "Your invoice",
        "html": "<p>Pay <b>now</b></p>",
        "recipient": {"externalId": "CUST-1", "cpfCnpj": CPF, "nome": "Ana Souza"},
        **fields,
    }


def providers(port: int, **settings: Any) -> dict[str, Any]:
    """EMAILGW with one provider: the SMTP server at that port of this machine."""
    options = {"host": "127.0.0.1", "port": port, "timeout": settings.pop("timeout", 2)}
    return {"PROVIDERS": {"smtp": {"OPTIONS": options}}, **settings}

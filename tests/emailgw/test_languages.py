"""Pages of the gateway speak the language of their reader."""

from __future__ import annotations

import pytest
from django.test import Client

from emailgw import services
from emailgw.models import Company
from tests.emailgw import factories


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "words"),
    [("it", ("Mittente", "Domini verificati")), ("pt-br", ("Remetente", "Domínios verificados"))],
)
def test_pages_speak_the_language_of_their_reader(
    admin_client: Client, company: Company, language: str, words: tuple[str, ...]
) -> None:
    made = services.accept(company, factories.request(), by="tests")
    spoken = {"accept-language": language}
    for path in (
        "outboxemail/", f"outboxemail/{made.outbox_id}/change/", f"company/{company.pk}/change/",
        "suppression/", f"outboxemail/{made.outbox_id}/do/resend/",
    ):  # fmt: skip
        answer = admin_client.get(f"/admin/emailgw/{path}", headers=spoken)
        assert answer.status_code == 200, path
        if path.startswith("company/"):
            assert all(word in answer.content.decode() for word in words)

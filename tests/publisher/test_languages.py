"""Pages of the publisher speak the language of their reader."""

from __future__ import annotations

import pytest
from django.test import Client

from publisher.models import Account


@pytest.mark.django_db
@pytest.mark.parametrize(("language", "word"), [("it", "Fuso orario"), ("pt-br", "Fuso horário")])
def test_pages_speak_the_language_of_their_reader(
    admin_client: Client, accounts: dict[str, Account], language: str, word: str
) -> None:
    path = f"/admin/publisher/brand/{accounts['meta_facebook'].brand_id}/change/"
    answer = admin_client.get(path, headers={"accept-language": language})
    assert word in answer.content.decode()

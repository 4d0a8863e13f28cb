"""Pages of the coach speak the language of their reader."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "words"), [("it", "Nessun conto è ancora"), ("pt-br", "Nenhuma conta está")]
)
def test_pages_speak_the_language_of_their_reader(language: str, words: str) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    spoken = {"accept-language": language}
    answer = client.get("/admin/trading/brokerconnection/", headers=spoken)
    assert words in answer.content.decode()

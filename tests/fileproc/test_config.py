"""Settings of the app: what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from fileproc import config


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "must be a dict"),
        ({"EMBEDER": "none"}, "did you mean 'EMBEDDER'"),
        ({"EMBEDDER": "word2vec"}, "must be one of auto, minilm, none, openai, azure"),
        ({"ATTEMPTS": {"extract": 0}}, "ATTEMPTS.extract"),
        ({"BACKOFF": {"ocr": 1}}, "must be a dict with keys"),
        ({"TIMEOUTS": {"chunk": "60"}}, "TIMEOUTS.chunk"),
        ({"RATES": {"embed": "fast"}}, "must be like '100/m'"),
        ({"QUOTA_BYTES": True}, "QUOTA_BYTES"),
        ({"EMBEDDER": "openai"}, "EMBEDDER_URL"),
        ({"EMBEDDER": "azure", "EMBEDDER_URL": "https://a.example.com"}, "needed for Azure"),
        (
            {"EMBEDDER": "openai", "EMBEDDER_URL": "http://x", "EMBEDDER_DIMENSIONS": 5000},
            "4000 at most",
        ),
        ({"EMBEDDER": "openai", "EMBEDDER_URL": "http://x", "EMBEDDER_MODEL": "../x"}, "a model"),
        ({"EMBEDDER_RATE": "fast"}, "EMBEDDER_RATE"),
        ({"CHUNK_TOKENS": 50, "CHUNK_OVERLAP": 50}, "less than CHUNK_TOKENS"),
    ],
)
def test_a_wrong_setting_is_named(given: Any, words: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=words):
        config.parse(given)


def test_a_stage_that_is_not_named_keeps_its_default() -> None:
    found = config.parse({"ATTEMPTS": {"embed": 5}, "TIMEOUTS": {"extract": 600}})
    assert found.ATTEMPTS == {"extract": 3, "chunk": 3, "embed": 5}
    assert found.TIMEOUTS == {"extract": 600, "chunk": 60, "embed": 90}

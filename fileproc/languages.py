"""Languages of documents, and how PostgreSQL's full-text search calls them."""

from __future__ import annotations

from typing import Any

from django.db import models

DEFAULT = "en"
CONFIGURATIONS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish", "eu": "basque", "fi": "finnish", "fr": "french",
    "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish", "simple": "simple",
}  # fmt: skip
"""By their codes; ``simple`` takes words as they are, in any language."""


class ConfigurationField(models.TextField):  # type: ignore[type-arg]  # it has none at run time
    """A configuration of full-text search, as a column that an index can depend on."""

    def db_type(self, connection: Any) -> str:
        return "regconfig"

"""Writes docs/openapi.json: ``python -m tests.api.document``."""

from __future__ import annotations

import json
from pathlib import Path


def write() -> None:
    import django

    django.setup()
    from config.api import api

    schema = api.get_openapi_schema(path_prefix="/api/v1/")
    text = json.dumps(schema, indent=1, ensure_ascii=False, default=str)
    (Path(__file__).parents[2] / "docs" / "openapi.json").write_text(text + "\n")


if __name__ == "__main__":
    write()

"""Puts the text in place of what a parser would return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.apps import AppConfig


class UnparsedConfig(AppConfig):
    name = "benchmarks.unparsed"

    def ready(self) -> None:
        from fileproc import extraction

        def read(ctx: Any, path: str, name: str, recognition: Any) -> extraction.Found:
            return extraction.Found("txt", Path(path).read_text(), [], [], False, [], "none")

        extraction.read = read

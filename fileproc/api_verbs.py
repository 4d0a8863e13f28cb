"""Verbs on documents, uploads and quotas, for operators, as operations of the upload API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ninja import Schema

from fileproc.problems import problem_of, with_code
from jobs.api import Section, auth

section = Section(
    "documents",
    {"document": "/documents", "upload": "/operate/batches", "quota": "/quotas"},
    login=auth.default(),
    shape=with_code,
    translate=problem_of,
)


class DocumentTextOut(Schema):
    """The beginning of a document's text."""

    text: str


def _shown(who: Any, document_id: UUID, text: str) -> dict[str, str]:
    return {"text": text}


section.does(
    "document.show", "/documents/{uuid:document_id}/show", "document_show",
    answer=DocumentTextOut, show=_shown, secret=("text",),
)  # fmt: skip

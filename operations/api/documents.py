"""Documents that were downloaded."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse

from jobs import blobs
from jobs.api import Problem
from operations.api.scope import one
from operations.api.section import section
from operations.models import Document
from operations.verbs import VIEW_OPERATION


@section.get("/operations/{uuid:operation_id}/document", "operation_document", needs=VIEW_OPERATION)
def operation_document(request: HttpRequest, operation_id: UUID) -> Any:
    """Download the PDF of an operation."""
    row = Document.objects.filter(pk=one(request, operation_id).pk).first()
    if row is None or blobs.store().head(row.blob) is None:
        raise Problem(404, "not-found", "there is no document")
    return document_response(row)


def document_response(row: Document) -> StreamingHttpResponse:
    """Return the PDF, in pieces."""

    def pieces() -> Any:
        with blobs.store().read(row.blob) as found:
            yield from found

    answer = StreamingHttpResponse(pieces(), content_type="application/pdf")
    answer["Content-Length"] = str(row.size)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", row.number).strip("-.") or "document"
    answer["Content-Disposition"] = f'attachment; filename="{name}.pdf"'
    answer["Cache-Control"] = "private, no-store"
    return answer

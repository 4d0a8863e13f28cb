"""Dead letters."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query

from fileproc import schemas
from fileproc.api.base import Owned, Part, name_of, on
from fileproc.login import owner_of
from fileproc.services import retrying
from fileproc.verbs import CHANGE_FILE, VIEW_FILE
from jobs.api import auth


@on("GET", "/dlq", "upload_dlq_list", VIEW_FILE, schemas.Letters)
def dlq_list(request: HttpRequest, asked: Query[Part]) -> Any:
    """List files whose last attempt has failed, newest first."""
    owner = owner_of(request, asked.owner)
    is_staff = auth.who(request).is_staff
    entries = retrying.letters(owner, asked.limit, asked.offset, with_stacks=is_staff)
    return {"entries": entries}


@on("POST", "/dlq/{uuid:file_id}/retry", "upload_dlq_retry", CHANGE_FILE, schemas.SuccessOut)
def dlq_retry(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Retry a failed file at the stage that failed."""
    retrying.retry(owner_of(request, asked.owner), file_id, by=name_of(request))
    return {"success": True}


@on("POST", "/dlq/retry-all", "upload_dlq_retry_all", CHANGE_FILE, schemas.RetryAllOut)
def dlq_retry_all(
    request: HttpRequest, asked: Query[Owned], body: schemas.RetryAllIn | None = None
) -> Any:
    """Retry up to a hundred failed files at once; with ``all``, a job retries the rest."""
    owner = owner_of(request, asked.owner)
    done = retrying.retry_all(owner, by=name_of(request))
    if body is not None and body.all and done.remaining:
        retrying.retry_rest(owner, by=name_of(request))
    return {"retried": done.retried, "failed": done.failed, "remaining": done.remaining}

"""Bodies and answers of confirmations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ninja import Field, Schema

from fileproc.schemas.documents import State
from fileproc.services import confirming
from jobs.api import In


class ConfirmIn(In):
    """What the client says of its upload."""

    size: int | None = None
    md5: str = Field("", max_length=200)


class ConfirmOneIn(ConfirmIn):
    """One of many uploads."""

    fileId: UUID


class ConfirmManyIn(In):
    """Up to 500 uploads."""

    files: list[ConfirmOneIn] = Field(min_length=1)


class ConfirmedOut(Schema):
    """A confirmed file, and what is done with its MD5."""

    fileId: UUID
    status: State
    md5: str


class ConfirmedItem(Schema):
    """What became of one of many confirmations."""

    fileId: UUID
    status: State | None = None
    md5: str = ""
    errorCode: str = ""
    message: str = ""


class ConfirmedMany(Schema):
    """What became of many confirmations, in their order."""

    confirmed: int
    refused: int
    files: list[ConfirmedItem]


def of_confirmed(one: confirming.Confirmed) -> dict[str, Any]:
    if one.refused is not None:
        return {"fileId": one.file_id, "errorCode": one.refused.code,
                "message": one.refused.message}  # fmt: skip
    return {"fileId": one.file_id, "status": one.status, "md5": one.md5}

"""The contract of the job ``email:send``: payload, options and result.

It contains a reference instead of the HTML, and a keyed hash instead of a document number. Personal
values are ``Sensitive``: encrypted in the row, masked wherever they are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

import jobs
from emailgw import addresses
from emailgw.config import (
    COPIES_LIMIT,
    EMAIL_JOB_CONFIG,
    HEADERS_LIMIT,
    SUBJECT_LIMIT,
    TAG_LIMIT,
    TAGS_LIMIT,
)

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)\Z")
_TAG = re.compile(rf"[A-Za-z0-9_-]{{1,{TAG_LIMIT}}}\Z")
_TEXT_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


class InvalidEmailJob(ValueError):
    """The data violates the contract; the message names the rule and contains no value."""

    def __init__(self, field: str, message: str) -> None:
        self.field, self.message = field, message
        super().__init__(f"{field}: {message}" if field else message)


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("email_contract", message)


def _uuid(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not _TEXT_UUID.match(value):
        raise _refuse("must be a valid UUID")
    return UUID(value)


def _address(value: str) -> str:
    if problem := addresses.address_problem(value):
        raise _refuse(problem)
    return value


def _line(value: str) -> str:
    if problem := addresses.line_problem(value):
        raise _refuse(problem)
    return value


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if _ISO.match(value):
            return datetime.fromisoformat(value)
    except ValueError:
        pass
    raise _refuse("must be a valid ISO 8601 timestamp")


def _tag(value: str) -> str:
    if not _TAG.match(value):
        raise _refuse(f"must be 1 to {TAG_LIMIT} letters, digits, _ or -")
    return value


def _headers(value: dict[str, str]) -> dict[str, str]:
    if len(value) > HEADERS_LIMIT:
        raise _refuse(f"must be at most {HEADERS_LIMIT}")
    if len({name.lower() for name in value}) != len(value):
        raise _refuse("must not be repeated")
    for name, text in value.items():
        if problem := addresses.header_problem(name, text):
            raise _refuse(problem)
    return value


Id = Annotated[UUID, BeforeValidator(_uuid)]
Address = Annotated[str, AfterValidator(_address)]
Line = Annotated[str, AfterValidator(_line)]
Copies = Annotated[list[Address], Field(max_length=COPIES_LIMIT)]
Subject = Annotated[str, Field(min_length=1, max_length=SUBJECT_LIMIT), AfterValidator(_line)]
Headers = Annotated[dict[str, str], AfterValidator(_headers)]
Tag = Annotated[str, AfterValidator(_tag)]
Tags = Annotated[list[Tag], Field(max_length=TAGS_LIMIT)]
Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
ExternalId = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_line)]


class RecipientRef(BaseModel):
    """The recipient, with the keyed hash of a document number instead of the number."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    recipientId: Id | None = None
    externalId: ExternalId | None = None
    cpfCnpjHash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    razaoSocial: Annotated[Line, Field(max_length=150)] | None = None
    nome: Annotated[Line, Field(max_length=120)] | None = None
    email: Address


class EmailSendJobData(jobs.Payload, kind=EMAIL_JOB_CONFIG.QUEUE_NAME):
    """An email to send. ``outboxId`` is also the id of the job."""

    outboxId: Id
    companyId: Id
    requestId: Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_line)]
    to: jobs.Sensitive[Address]
    cc: jobs.Sensitive[Copies | None] = None
    bcc: jobs.Sensitive[Copies | None] = None
    subject: jobs.Sensitive[Subject]
    htmlRef: Id
    replyTo: jobs.Sensitive[Address | None] = None
    headers: jobs.Sensitive[Headers | None] = None
    tags: Tags | None = None
    recipient: jobs.Sensitive[RecipientRef]
    attempt: Annotated[int, Field(ge=1, le=EMAIL_JOB_CONFIG.MAX_ATTEMPTS)] = 1
    enqueuedAt: Moment

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if self.recipient.email != self.to:
            raise _refuse("recipient.email must match to")
        known = (self.recipient.recipientId, self.recipient.externalId, self.recipient.cpfCnpjHash)
        if not any(known):
            raise _refuse("At least one recipient identifier required")
        return self

    @property
    def envelope(self) -> list[str]:
        """Return the addresses of to, cc and bcc, each once."""
        everyone = [self.to, *(self.cc or ()), *(self.bcc or ())]
        return list({address.lower(): address for address in reversed(everyone)}.values())[::-1]


def validate_email_job_data(data: Mapping[str, Any] | EmailSendJobData) -> EmailSendJobData:
    """Validate the data of a job; raise InvalidEmailJob that names field and rule."""
    if isinstance(data, EmailSendJobData):
        return data
    try:
        text = json.dumps(data, default=_as_json, allow_nan=False)
        return EmailSendJobData.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise InvalidEmailJob(_path(first["loc"]), first["msg"]) from None
    except (TypeError, ValueError, RecursionError):
        raise InvalidEmailJob("", "must be a JSON object") from None


def _path(loc: tuple[int | str, ...]) -> str:
    # Keys of headers are the sender's values and are not quoted.
    return ".".join(map(str, loc[:1] if loc and loc[0] == "headers" else loc))


def _as_json(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError


class EmailSendJobOptions(BaseModel):
    """Options of a job."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    jobId: Id
    ttl: Annotated[int, Field(gt=0, le=EMAIL_JOB_CONFIG.DEFAULT_TTL)] = EMAIL_JOB_CONFIG.DEFAULT_TTL
    priority: Annotated[int, Field(ge=1, le=10)] = EMAIL_JOB_CONFIG.DEFAULT_PRIORITY
    delay: Annotated[int, Field(ge=0)] = 0
    removeOnComplete: bool | None = None
    removeOnFail: bool | None = None

    @field_validator("delay")
    @classmethod
    def _in_time(cls, value: int, info: ValidationInfo) -> int:
        if value >= info.data.get("ttl", value + 1):
            raise _refuse("delay must be shorter than the ttl")
        return value


def engine_priority(priority: int) -> int:
    """Convert a priority of 1 (most urgent) to 10 to the engine's, where higher runs sooner.

    One step equals half a minute of waiting.
    """
    return (int(EMAIL_JOB_CONFIG.DEFAULT_PRIORITY) - priority) * 10


class EmailSendJobResult(BaseModel):
    """The result of the job."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    sesMessageId: str
    status: Literal["SENT", "ALREADY_SENT"]
    processedAt: datetime
    durationMs: int
    attempt: int

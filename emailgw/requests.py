"""Validation of requests to send an email."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from emailgw.config import HTML_LIMIT
from emailgw.documents import document_problem
from emailgw.errors import Refused
from emailgw.html import html_problem, sanitised
from emailgw.payloads import Address, Copies, ExternalId, Headers, Line, Subject, Tags

ERRORS_LIMIT = 1000
ERRORS_SHOWN = 20


def _lowered(value: Any) -> Any:
    if isinstance(value, list):
        return [_lowered(one) for one in value]
    return value.lower() if isinstance(value, str) else value


def _refuse(problem: str) -> None:
    if problem:
        raise PydanticCustomError("email_request", problem)


def _document(value: str) -> str:
    _refuse(document_problem(value))
    return value


def _html(value: str) -> str:
    _refuse(html_problem(value))
    clean = sanitised(value)
    _refuse("" if clean.strip() else "has nothing that may be sent")
    return clean


To = Annotated[Address, BeforeValidator(_lowered)]


class RequestRecipient(BaseModel):
    """The recipient as the sender describes it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    externalId: ExternalId | None = None
    cpfCnpj: Annotated[str, AfterValidator(_document)] | None = Field(default=None, repr=False)
    razaoSocial: Annotated[Line, Field(max_length=150)] | None = Field(default=None, repr=False)
    nome: Annotated[Line, Field(max_length=120)] | None = Field(default=None, repr=False)
    email: To | None = Field(default=None, repr=False)


class EmailRequest(BaseModel):
    """A request to send one email. Its HTML is sanitised and its addresses are lowercased."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    to: To = Field(repr=False)
    cc: Annotated[Copies, BeforeValidator(_lowered)] = Field(default=[], repr=False)
    bcc: Annotated[Copies, BeforeValidator(_lowered)] = Field(default=[], repr=False)
    subject: Subject = Field(repr=False)
    html: Annotated[str, AfterValidator(_html)] = Field(repr=False)
    replyTo: To | None = Field(default=None, repr=False)
    headers: Headers = Field(default={}, repr=False)
    tags: Tags = []
    recipient: RequestRecipient = RequestRecipient()
    externalId: ExternalId | None = None

    @field_validator("cc", "bcc")
    @classmethod
    def _once(cls, value: list[str], info: ValidationInfo) -> list[str]:
        named = [info.data.get("to"), *value]
        if info.field_name == "bcc":
            named += info.data.get("cc", [])
        if len(set(named)) != len(named):
            _refuse("every recipient must be named once")
        return value

    @field_validator("recipient")
    @classmethod
    def _same_address(cls, value: RequestRecipient, info: ValidationInfo) -> RequestRecipient:
        if value.email not in (None, info.data.get("to", value.email)):
            _refuse("recipient.email must match to")
        return value


def parse(data: Mapping[str, Any] | EmailRequest) -> EmailRequest:
    """Validate a request; raise Refused that names the field and never contains a value."""
    if isinstance(data, EmailRequest):
        return data
    try:
        return EmailRequest.model_validate_json(json.dumps(data))
    except ValidationError as error:
        if (count := error.error_count()) > ERRORS_LIMIT:  # pydantic lists all of them or none
            raise Refused("VALIDATION_ERROR", f"has {count} errors") from None
        found = error.errors(include_url=False, include_input=False, include_context=False)
        problems = [(_field(one["loc"]), one["msg"]) for one in found[:ERRORS_SHOWN]]
        field, message = problems[0]
        is_large = field == "html" and "bytes" in message
        code = "PAYLOAD_TOO_LARGE" if is_large else "VALIDATION_ERROR"
        raise Refused(code, message, field, others=problems[1:]) from None
    except (TypeError, ValueError, RecursionError):
        raise Refused("BAD_REQUEST", "must be a JSON object") from None


def _field(loc: tuple[int | str, ...]) -> str:
    # The names of headers are the sender's own text, and are not repeated.
    return ".".join(map(str, loc[:1] if loc[:1] == ("headers",) else loc))


def contract() -> dict[str, Any]:
    """Return the JSON Schema of a request, without references."""
    found = EmailRequest.model_json_schema()
    parts = found.pop("$defs")
    fields = found["properties"]
    fields["recipient"] = {**parts["RequestRecipient"], "default": {}}
    for name in ("to", "replyTo"):
        fields[name]["description"] = "a plain address, without a display name"
    fields["html"]["description"] = (
        f"at most {HTML_LIMIT} bytes; scripts, forms and remote content are removed"
    )
    return found

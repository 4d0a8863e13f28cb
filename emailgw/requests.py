"""What somebody asks for who wants an email sent, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from emailgw.config import HTML_LIMIT
from emailgw.documents import document_problem
from emailgw.errors import Refused
from emailgw.html import html_problem, sanitised
from emailgw.payloads import Address, Copies, ExternalId, Headers, Line, Subject, Tags


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
    """Who the sender says that it is."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    externalId: ExternalId | None = None
    cpfCnpj: Annotated[str, AfterValidator(_document)] | None = Field(default=None, repr=False)
    razaoSocial: Annotated[Line, Field(max_length=150)] | None = Field(default=None, repr=False)
    nome: Annotated[Line, Field(max_length=120)] | None = Field(default=None, repr=False)
    email: To | None = Field(default=None, repr=False)


class EmailRequest(BaseModel):
    """One email, as it is asked for. Its HTML is sanitised, its addresses are in small letters."""

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

    @model_validator(mode="after")
    def _same_recipient(self) -> Self:
        if self.recipient.email not in (None, self.to):
            _refuse("recipient.email must match to")
        everyone = [self.to, *self.cc, *self.bcc]
        if len(set(everyone)) != len(everyone):
            _refuse("every recipient must be named once")
        return self


def parse(data: Mapping[str, Any] | EmailRequest) -> EmailRequest:
    """The request; raises Refused that names the field and never shows a value."""
    if isinstance(data, EmailRequest):
        return data
    try:
        return EmailRequest.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        loc = first["loc"][:1] if first["loc"][:1] == ("headers",) else first["loc"]
        field = ".".join(map(str, loc))
        code = "PAYLOAD_TOO_LARGE" if field == "html" and "bytes" in first["msg"] else ""
        raise Refused(code or "VALIDATION_ERROR", first["msg"], field) from None
    except (TypeError, ValueError, RecursionError):
        raise Refused("BAD_REQUEST", "must be a JSON object") from None


def contract() -> dict[str, Any]:
    """A request as JSON Schema, in one piece."""
    found = EmailRequest.model_json_schema()
    parts = found.pop("$defs")
    fields = found["properties"]
    fields["recipient"] = {**parts["RequestRecipient"], "default": {}}
    for name in ("to", "replyTo"):
        fields[name]["description"] = "one plain address"
    fields["html"]["description"] = f"at most {HTML_LIMIT} bytes; what acts or loads is taken out"
    return found

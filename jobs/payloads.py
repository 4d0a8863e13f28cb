"""What a job carries: a strict, frozen pydantic model with a stable name of its own.

::

    class SendEmail(jobs.Payload, kind="email.send", aliases=["mail.send"], version=2):
        outbox_id: UUID

        @classmethod
        def upcast(cls, data, version):     # called for rows written by an older version
            return {**data, "outbox_id": data.pop("id")}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError

from jobs import jsontext
from jobs.errors import HandlerError, InvalidPayload
from jobs.names import name_problem


class Payload(BaseModel):
    """Base of every payload; the subclass gives it a ``kind``."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
    )

    kind: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1

    def __init_subclass__(
        cls,
        *,
        kind: str = "",
        aliases: Iterable[str] = (),
        version: int = 1,
        **config: Any,
    ) -> None:
        super().__init_subclass__(**config)
        if not kind:
            return  # an abstract base for other payloads
        aliases = (aliases,) if isinstance(aliases, str) else tuple(aliases)
        for name in (kind, *aliases):
            if problem := name_problem(name):
                raise HandlerError(f"{cls.__qualname__}: kind {problem}")
        if type(version) is not int or not 1 <= version <= 32767:
            raise HandlerError(f"{cls.__qualname__}: version must lie between 1 and 32767")
        cls.kind, cls.aliases, cls.version = kind, aliases, version

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        # Pydantic would let it: the row would then be of another kind than its class.
        for name in ("kind", "aliases", "version"):
            if name in cls.model_fields:
                raise HandlerError(f"{cls.__qualname__}: a field cannot be called {name!r}")

    @classmethod
    def upcast(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
        """The data of an older ``version`` in today's shape."""
        return data

    def to_text(self, limit: int) -> str:
        """This payload as storable JSON text; raises InvalidPayload naming the field."""
        try:
            return jsontext.checked(self.__pydantic_serializer__.to_json(self), limit)
        except (PydanticSerializationError, RecursionError):
            problem: jsontext.UnstorableValue | None = None
            try:
                jsontext.dumps(self.__dict__, limit)
            except jsontext.UnstorableValue as found:
                problem = found
            field, text = (problem.field, problem.problem) if problem else ("payload", "no JSON")
            raise InvalidPayload(self.kind, field or "payload", text) from None
        except jsontext.UnstorableValue as found:
            raise InvalidPayload(self.kind, found.field or "payload", found.problem) from None

    @classmethod
    def from_text(cls, text: str, version: int) -> Self:
        """The payload that a row of this ``version`` holds; raises InvalidPayload."""
        try:
            if version == cls.version:
                return cls.model_validate_json(text)
            return cls.model_validate_json(json.dumps(cls.upcast(json.loads(text), version)))
        except ValidationError as error:
            raise cls._refused(error) from None
        except Exception as error:  # upcast is the project's own code
            raise InvalidPayload(cls.kind, "upcast", f"{type(error).__name__}: {error}") from error

    @classmethod
    def build(cls, data: dict[str, Any]) -> Self:
        """The payload made from JSON-shaped data; raises InvalidPayload naming the field."""
        try:
            return cls.model_validate_json(jsontext.dumps(data, 16 * 1024 * 1024))
        except ValidationError as error:
            raise cls._refused(error) from None
        except jsontext.UnstorableValue as found:
            raise InvalidPayload(cls.kind, found.field or "payload", found.problem) from None

    @classmethod
    def _refused(cls, error: ValidationError) -> InvalidPayload:
        # Never the offending input: it may be somebody's personal data.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "payload"
        return InvalidPayload(cls.kind, path, first["msg"])

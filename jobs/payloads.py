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

from jobs import jsontext, sensitive
from jobs.errors import HandlerError, InvalidPayload, SealError, UnknownKey
from jobs.keyring import Place
from jobs.masks import HIDDEN
from jobs.names import name_problem

ERRORS_LIMIT = 1000
"""Pydantic reports all errors or none; of more than these only the number is shown."""


class Payload(BaseModel):
    """Base of every payload; the subclass gives it a ``kind``."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
        hide_input_in_errors=True,
    )

    kind: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1
    __sensitive__: ClassVar[frozenset[str]] = frozenset()

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
        cls._look_for_sensitive_fields()

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        # Types that were not known when the class was made are known by now.
        cls._look_for_sensitive_fields()

    @classmethod
    def _look_for_sensitive_fields(cls) -> None:
        if inner := sensitive.misplaced_mark(cls):
            raise HandlerError(
                f"{cls.__qualname__}: {inner} is sensitive in its inside only; declare the whole "
                "field, like Sensitive[list[str]] or Sensitive[str | None]"
            )
        cls.__sensitive__ = sensitive.sensitive_fields(cls)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, HIDDEN if name in self.__sensitive__ else value

    @classmethod
    def upcast(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
        """The data of an older ``version`` in today's shape."""
        return data

    def to_text(self, limit: int, place: Place | None = None) -> str:
        """This payload as storable JSON text; raises InvalidPayload naming the field.

        Sensitive fields are sealed for the ``place``, without which there is no text of them.
        """
        if self.__sensitive__:
            return self._sealed_text(limit, place)
        try:
            text = jsontext.checked(self.__pydantic_serializer__.to_json(self), limit)
        except (PydanticSerializationError, RecursionError):
            problem: jsontext.UnstorableValue | None = None
            try:
                jsontext.dumps(self.__dict__, limit)
            except jsontext.UnstorableValue as found:
                problem = found
            field, why = (problem.field, problem.problem) if problem else ("payload", "no JSON")
            raise InvalidPayload(self.kind, field or "payload", why) from None
        except jsontext.UnstorableValue as found:
            raise InvalidPayload(self.kind, found.field or "payload", found.problem) from None
        if sensitive.IN_TEXT in text and (name := sensitive.reserved_field(json.loads(text))):
            raise InvalidPayload(self.kind, name, f"the key {sensitive.MARK!r} is reserved")
        return text

    def _sealed_text(self, limit: int, place: Place | None) -> str:
        if place is None:
            raise SealError(f"payload of {self.kind!r}: sensitive fields need a place to be stored")
        field = "payload"
        try:
            data = self._clear_data()
            plain = {name: value for name, value in data.items() if name not in self.__sensitive__}
            jsontext.dumps(plain, limit)  # names the field that is wrong
            if field := sensitive.reserved_field(plain):
                raise InvalidPayload(self.kind, field, f"the key {sensitive.MARK!r} is reserved")
            for field in sorted(self.__sensitive__ & data.keys()):
                data[field] = sensitive.sealed(data[field], place, field, limit)
            field = ""
            return jsontext.dumps(data, limit)
        except jsontext.UnstorableValue as found:
            # Inside of a sensitive field not even the path may be shown: keys may be data.
            name = field or found.field or "payload"
            raise InvalidPayload(self.kind, name, found.problem) from None
        except (PydanticSerializationError, RecursionError):
            raise InvalidPayload(self.kind, field or "payload", "has no JSON") from None

    def _clear_data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.__pydantic_serializer__.to_python(
            self, mode="json", context=sensitive.CLEAR
        )
        return data

    def secrets(self) -> frozenset[str]:
        """Every text and number inside of the sensitive fields, for code that has to hide them."""
        if not self.__sensitive__:
            return frozenset()
        data = self._clear_data()
        return frozenset(
            leaf
            for name in self.__sensitive__ & data.keys()
            for leaf in sensitive.leaves(data[name])
        )

    @classmethod
    def from_text(cls, text: str, version: int, place: Place | None = None) -> Self:
        """The payload that a row of this ``version`` holds; raises InvalidPayload.

        Sealed fields are opened where the ``place`` is the one that they were sealed for. Raises
        UnknownKey where the key ring lacks their key.
        """
        if sensitive.IN_TEXT in text:
            try:
                text = sensitive.opened(text, place)
            except UnknownKey:
                raise
            except SealError as error:
                raise InvalidPayload(cls.kind, "payload", str(error)) from None
        try:
            if version == cls.version:
                return cls.model_validate_json(text)
            return cls.model_validate_json(json.dumps(cls.upcast(json.loads(text), version)))
        except ValidationError as error:
            raise cls._refused(error) from None
        except Exception as error:  # upcast is the project's own code
            if cls.__sensitive__:  # its message may be about a value
                raise InvalidPayload(cls.kind, "upcast", type(error).__name__) from None
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
        if (count := error.error_count()) > ERRORS_LIMIT:
            return InvalidPayload(cls.kind, "payload", f"has {count} errors")
        # Never the offending input: it may be somebody's personal data.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        loc = first["loc"]
        if cls.__sensitive__ and (not loc or loc[0] in cls.__sensitive__):
            # The message may be the project's own, and quote the value; the path may name its keys.
            field = str(loc[0]) if loc else "payload"
            return InvalidPayload(cls.kind, field, f"is not valid ({first['type']})")
        return InvalidPayload(cls.kind, ".".join(map(str, loc)) or "payload", first["msg"])

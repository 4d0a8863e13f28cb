"""Commands made of functions of ``operate``: their parameters are its arguments.

What stands before ``by`` is named by its place, what comes after it by an option.
"""

from __future__ import annotations

import inspect
import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import time, timedelta
from typing import Any
from uuid import UUID

from jobs import registry
from jobs.cli.answers import say_one
from jobs.cli.people import person
from jobs.cli.schedules import moment
from jobs.cli.verb import Options
from jobs.errors import InvalidOption, InvalidPayload
from jobs.payloads import Payload

_SEVERAL = ("Sequence", "Iterable")
_SKIPPED = ("by", "payload", "version")
_WORDS = {
    "reason": "why, for the record",
    "until": "until this time, like 2030-01-31T18:00Z",
    "at": "not before this time, like 2030-01-31T18:00Z",
    "force": "end the process of a running one that does not obey",
    "attempts": "allow so many more failures",
    "reset": "with its whole budget of attempts again",
    "payload_patch": "fields of the payload to replace, as JSON (null takes one away)",
    "tenants": "only this tenant",
    "queues": "only this queue",
    "addresses": "only from this address or network",
    "expires_at": "good until this time, like 2030-01-31T18:00Z",
    "is_staff": "also told what is meant for administrators",
    "set": "something else of it, as NAME=JSON; may be given more than once",
}


def uuid(text: str) -> UUID:
    """An argument that is an id."""
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no id") from None


def data(text: str) -> Any:
    """An argument that is JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no JSON: {error}") from None


def clock(text: str) -> time:
    """An argument like ``18:30``."""
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time of day, like 18:30") from None


def pair(text: str) -> tuple[str, Any]:
    """An argument like ``NAME=JSON``; what is no JSON is a text."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise ArgumentTypeError(f"{text!r} is not NAME=JSON")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def several(text: str) -> list[str]:
    """An argument like ``view_job,retry_job``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def seconds(text: str) -> timedelta:
    """An argument in seconds."""
    try:
        return timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        raise ArgumentTypeError(f"{text!r} is no number of seconds") from None


_TYPES: dict[str, Callable[[str], Any]] = {
    "UUID": uuid,
    "int": int,
    "float": float,
    "datetime": moment,
    "time": clock,
    "timedelta": seconds,
    "Duration": seconds,
    "Mapping": data,
    "Any": data,
}


def add_parameters(parser: ArgumentParser, function: Callable[..., Any]) -> None:
    """The command takes what the function takes."""
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    for name, parameter in inspect.signature(function).parameters.items():
        told = str(parameter.annotation)
        is_required = parameter.default is parameter.empty
        if name == "payload" and is_required:
            parser.add_argument("kind", metavar="KIND", help="kind of the job")
            parser.add_argument("data", type=data, metavar="JSON", help="its payload")
        elif name in _SKIPPED:
            continue
        elif parameter.kind is parameter.VAR_KEYWORD:
            parser.add_argument("--set", action="append", type=pair, metavar="NAME=JSON",
                                default=[], help=_WORDS["set"])  # fmt: skip
        elif parameter.kind is parameter.KEYWORD_ONLY:
            _add_option(parser, name, told, parameter.default, is_required)
        elif told.startswith(_SEVERAL):
            parser.add_argument(
                name, type=several, metavar=name.upper(), help="separated by commas"
            )
        else:
            parser.add_argument(name, type=_type(told), metavar=name.upper())


def _add_option(
    parser: ArgumentParser, name: str, told: str, default: Any, is_required: bool
) -> None:
    flag, words = f"--{name.replace('_', '-')}", _WORDS.get(name, name.replace("_", " "))
    if told == "bool":
        if default is True:
            flag, words = f"--no-{name.replace('_', '-')}", f"not {words}"
        parser.add_argument(flag, dest=name, help=words, default=default,
                            action="store_false" if default is True else "store_true")  # fmt: skip
    elif told.startswith(_SEVERAL):
        kind = int if "int" in told else str
        parser.add_argument(flag, dest=name, action="append", type=kind,
                            help=f"{words}; may be given more than once")  # fmt: skip
    else:
        parser.add_argument(
            flag, dest=name, type=_type(told), required=is_required, help=words,
            metavar=name.upper(),
        )  # fmt: skip


def _type(told: str) -> Callable[[str], Any]:
    return _TYPES.get(told.split("|")[0].split("[")[0].strip(), str)


def call(function: Callable[..., Any], options: Options) -> Any:
    """What the function answers to what was typed; what was not typed is as it is by default."""
    places, named = [], dict[str, Any]()
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "by":
            named["by"] = person()
        elif name == "payload" and parameter.default is parameter.empty:
            places.append(payload_of(options["kind"], options["data"]))
        elif name in _SKIPPED:
            continue
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(options["set"])
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if options[name] is not None:
                named[name] = options[name]
        else:
            places.append(options[name])
    try:
        return function(*places, **named)
    except TypeError as error:
        if options.get("set"):
            raise InvalidOption("set", str(error)) from error
        raise


def payload_of(kind: str, content: Any) -> Payload:
    """The payload of this kind with this content; raises InvalidPayload."""
    handler = registry.get(kind)
    if not isinstance(content, dict):
        raise InvalidPayload(kind, "payload", "must be a JSON object")
    return handler.payload.from_text(json.dumps(content), handler.payload.version)


def act(function: Callable[..., Any], options: Options) -> int:
    """The function is called and what it answers printed."""
    found = call(function, options)
    if found is not None or options["json"]:
        say_one({"done": True} if found is None else found, options["json"])
    else:
        say_one("done", False)
    return 0

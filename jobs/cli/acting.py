"""Commands made of the declarations of verbs: what people give to a verb is what they type.

What stands before ``by`` is named by its place, what comes after it by an option.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from jobs.cli.answers import say_one
from jobs.cli.people import person
from jobs.cli.verb import Options
from jobs.errors import InvalidOption
from jobs.operate.parameters import Parameter
from jobs.operate.verbs import Verb

Say = Callable[[Any, Options], None]
"""Prints what a verb returned."""


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


def moment(text: str) -> datetime:
    """An argument like ``2030-01-31T18:00+01:00``."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time; write it like 2030-01-31T18:00Z") from None
    if value.utcoffset() is None:
        raise ArgumentTypeError(f"{text!r} needs a time zone, like 2030-01-31T18:00Z")
    return value


def day(text: str) -> date:
    """An argument like ``2030-01-31``."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no date, like 2030-01-31") from None


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


_TYPES: Mapping[Any, Callable[[str], Any]] = {
    UUID: uuid,
    int: int,
    float: float,
    datetime: moment,
    date: day,
    time: clock,
    timedelta: seconds,
    dict: data,
    Any: data,
}


_TAKEN = frozenset(
    ("verb", "action", "version", "settings", "pythonpath", "traceback", "verbosity", "no_color",
     "force_color", "skip_checks", "stdout", "stderr")
)  # fmt: skip
"""What Django and the commands around it call their own options."""


def _dest(one: Parameter) -> str:
    """Return what the options call the parameter."""
    return f"{one.name}_" if one.name in _TAKEN else one.name


def _typed(one: Parameter, options: Mapping[str, Any]) -> Any:
    dest = _dest(one)
    return options[dest] if dest in options else options[one.name]


def add_verb(parser: ArgumentParser, verb: Verb, without: Collection[str] = ()) -> None:
    """Let the command take what the verb takes, but for the parameters ``without``."""
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    for one in verb.every_parameter:
        if one.name in without:
            continue
        if one.is_rest:
            parser.add_argument(
                "--set", action="append", type=pair, metavar="NAME=JSON", default=[],
                help="something else of it, as NAME=JSON; may be given more than once",
            )  # fmt: skip
        else:
            add(parser, one)


def add(parser: ArgumentParser, parameter: Parameter) -> None:
    """Let the command take the parameter."""
    for one in parameter.parts:
        if one.by_place:
            _add_place(parser, one)
        else:
            _add_option(parser, one)


def _add_place(parser: ArgumentParser, one: Parameter) -> None:
    if one.is_many:
        parser.add_argument(
            _dest(one), type=several, metavar=one.name.upper(), help="separated by commas"
        )
        return
    kind = _TYPES.get(one.type, str)
    words = one.help or None
    if one.is_optional:
        words = f"{words or one.words}; - for none"
    parser.add_argument(
        _dest(one), type=_or_none(kind) if one.is_optional else kind, metavar=one.name.upper(),
        choices=one.choices or None, help=words,
    )  # fmt: skip


def _or_none(typed: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        return None if text == "-" else typed(text)

    return read


def _add_option(parser: ArgumentParser, one: Parameter) -> None:
    flag = f"--{one.flag}"
    words = "why, for the record" if one.name == "reason" else one.words
    words += ", in seconds" if one.type is timedelta else ""
    if one.type is bool and not one.is_many:
        is_on = one.default is True
        parser.add_argument(
            f"--no-{one.flag}" if is_on else flag, dest=_dest(one),
            help=f"not {words}" if is_on else words, default=None,
            action="store_false" if is_on else "store_true",
        )  # fmt: skip
    elif one.is_many:
        parser.add_argument(
            flag, dest=_dest(one), action="append", type=_TYPES.get(one.type, str),
            help=f"{words}; may be given more than once",
        )  # fmt: skip
    else:
        parser.add_argument(
            flag, dest=_dest(one), type=_TYPES.get(one.type, str), required=one.is_required,
            choices=one.choices or None, help=words,
            metavar=None if one.choices else one.name.upper(),
        )  # fmt: skip


def typed(parameter: Parameter, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed for the parameter, by the names of its parts."""
    given = {one.name: _typed(one, options) for one in parameter.parts}
    return given if parameter.by_place else {n: v for n, v in given.items() if v is not None}


def call(verb: Verb, options: Options, given: Mapping[str, Any] | None = None) -> Any:
    """Do the verb with what was typed, or ``given``; return what it returns."""
    said = {**options, **(given or {})}
    places: list[Any] = []
    named: dict[str, Any] = {"by": person()}
    for one in verb.every_parameter:
        if one.is_rest:
            named.update(said["set"])
        elif one.by_place:
            places.append(one.joined(typed(one, said)))
        elif found := typed(one, said):
            named[one.name] = one.joined(found)
    try:
        return verb.function(*places, **named)
    except TypeError as error:
        if options.get("set"):
            raise InvalidOption("set", str(error)) from error
        raise


def act(verb: Verb, options: Options, say: Say | None = None) -> int:
    """Do the verb and print what it returns."""
    found = call(verb, options)
    if say is not None:
        say(found, options)
    elif found is not None or options["json"]:
        say_one({"done": True} if found is None else found, options["json"])
    else:
        say_one("done", False)
    return 0

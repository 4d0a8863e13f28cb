"""Verbs: what people do, each declared once, at the function that does it.

::

    @verb("job.cancel", on=JOB, permission=CANCEL_JOB)
    def cancel(job_id: UUID, *, by: By, reason: str = "", force: Force = False) -> Cancelled:
        \"\"\"Cancel a waiting job at once; ask a running one to stop.\"\"\"
        with acting(cancel, job_id, by=by, reason=reason) as act:
            ...

The signature is part of the declaration: the first parameter is the target's id (a verb that is
``new`` has none), ``reason`` without a default has to be given, and every other parameter is one
that people may give, with the type, the choices and the description of its annotation. The first
line of the docstring is the summary. Admin, API, command line, groups and documents read all of
it here and nowhere else.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from django.apps import apps as apps_of_django

from jobs import docstrings
from jobs.errors import ConfigError, Denied, JobsError
from jobs.operate import acts, parameters, targets
from jobs.operate.parameters import Parameter
from jobs.operate.targets import Place, Target
from jobs.principals import By
from jobs.states import JobState

Function = TypeVar("Function", bound=Callable[..., Any])
Group = Literal["operator", "administrator", ""]
CORE = "jobs"


@dataclass(frozen=True, slots=True)
class Many:
    """How a verb is done to many jobs at once."""

    states: frozenset[JobState]
    """Of the jobs that it may be done to."""
    options: frozenset[str] = frozenset()
    """The parameters that may be given."""
    runs: bool = False
    """Whether the jobs run afterwards, so that the first of them can be waited for."""


@dataclass(frozen=True)
class Verb:
    """Something that people do to one target of a sort."""

    name: str
    """As the audit calls it: a noun, a dot, and what is done."""
    target: Target
    permission: str
    function: Callable[..., Any] = field(repr=False)
    also: tuple[str, ...] = ()
    """Permissions that the function asks for besides, in some cases."""
    group: Group = "operator"
    """The least of the groups that may do it; empty: an app's, in no group."""
    is_new: bool = False
    """Whether it makes its target, which has no id before."""
    many: Many | None = None

    @property
    def noun(self) -> str:
        return self.name.partition(".")[0]

    @property
    def action(self) -> str:
        return self.name.partition(".")[2]

    @property
    def slug(self) -> str:
        """What is done, as addresses and commands spell it."""
        return self.action.replace("_", "-")

    @property
    def app(self) -> str:
        """The label of the app that declares it."""
        found = apps_of_django.get_containing_app_config(self.function.__module__)
        return found.label if found is not None else self.function.__module__.partition(".")[0]

    @cached_property
    def summary(self) -> str:
        """What it does, in one line."""
        return docstrings.summary(self.function)

    @cached_property
    def every_parameter(self) -> tuple[Parameter, ...]:
        """What people give, the target's id first; without who they are."""
        return parameters.of(self.function)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What people give besides the target and the reason."""
        rest = self.every_parameter if self.is_new else self.every_parameter[1:]
        return tuple(one for one in rest if one.name != "reason")

    @property
    def reason(self) -> Parameter | None:
        """The reason, where one may be given."""
        return next((one for one in self.every_parameter if one.name == "reason"), None)

    @property
    def needs_reason(self) -> bool:
        return self.reason is not None and self.reason.is_required


_VERBS: dict[str, Verb] = {}
_loaded = False


def verb(
    name: str,
    *,
    on: Target,
    permission: str,
    also: tuple[str, ...] = (),
    group: Group = "operator",
    new: bool = False,
    many: Many | None = None,
) -> Callable[[Function], Function]:
    """Declare the function as what does this verb."""

    def declare(function: Function) -> Function:
        made = Verb(name, on, permission, function, also, group, new, many)
        _check(made)
        targets.register(on)
        _VERBS[name] = made
        function.__verb__ = made  # type: ignore[attr-defined]
        return function

    return declare


def _check(made: Verb) -> None:
    """Raise ConfigError where the declaration makes no sense."""
    if not made.noun or not made.action:
        raise ConfigError(f"verb {made.name!r}: the name must be like 'parcel.send'")
    known = _VERBS.get(made.name)
    if known is not None and (known.function.__module__, known.function.__qualname__) != (
        made.function.__module__,
        made.function.__qualname__,
    ):
        raise ConfigError(f"verb {made.name!r} is declared twice")
    if targets.of_kind(made.target.kind) not in (made.target, Target(made.target.kind)):
        raise ConfigError(f"verb {made.name!r}: another target is called {made.target.kind!r}")
    if not made.permission:
        raise ConfigError(f"verb {made.name!r}: a permission is missing")
    signature = inspect.signature(made.function).parameters
    if "by" not in signature or signature["by"].kind is not inspect.Parameter.KEYWORD_ONLY:
        raise ConfigError(f"verb {made.name!r}: the function must take 'by' as a keyword")
    if not docstrings.summary(made.function):
        raise ConfigError(f"verb {made.name!r}: the function has no docstring")
    _check_parameters(made)


def _check_parameters(made: Verb) -> None:
    """Raise ConfigError for what no face could ask for."""
    try:
        found = made.every_parameter
    except NameError as error:
        raise ConfigError(f"verb {made.name!r}: a type is not known: {error}") from error
    for one in found:
        if one.name in ("json", "help"):
            raise ConfigError(
                f"verb {made.name!r}: parameter {one.name!r} is an option of every command"
            )
        if not one.is_supported:
            known = ", ".join(kind.__name__ for kind in parameters.PLAIN)
            raise ConfigError(
                f"verb {made.name!r}: parameter {one.name!r} has a type that cannot be asked for; "
                f"use {known}, a Literal of texts, a list of one of these, or a dict for JSON"
            )
    if made.is_new:
        return
    if not found or not found[0].by_place or found[0].type is not made.target.id:
        wanted = made.target.id.__name__
        raise ConfigError(
            f"verb {made.name!r}: the first parameter must be the id of a {made.target.kind}, "
            f"of type {wanted} (or say new=True)"
        )


def load() -> None:
    """Import every module of the platform that declares verbs; apps' are imported by Django."""
    global _loaded
    if _loaded:
        return
    package = importlib.import_module("jobs.operate")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"jobs.operate.{module.name}")
    _loaded = True


def every() -> Mapping[str, Verb]:
    """Return all verbs, by name, in the order of their modules and of what stands in those."""
    load()
    return MappingProxyType({one.name: one for one in sorted(_VERBS.values(), key=_place_of)})


def _place_of(declared: Verb) -> tuple[bool, str, int]:
    code = declared.function.__code__
    return declared.app != CORE, declared.function.__module__, code.co_firstlineno


def of_noun(noun: str) -> tuple[Verb, ...]:
    """Return the verbs whose names begin with this noun."""
    return tuple(one for one in every().values() if one.noun == noun)


def of_app(app: str) -> tuple[Verb, ...]:
    """Return the verbs that this app declares."""
    return tuple(one for one in every().values() if one.app == app)


def apps() -> tuple[str, ...]:
    """Return the apps that declare verbs of their own."""
    return tuple(sorted({one.app for one in every().values()} - {CORE}))


def find(name: str) -> Verb | None:
    """Return the verb of this name."""
    load()
    return _VERBS.get(name)


def of(function: Callable[..., Any]) -> Verb:
    """Return the verb that the function does; raises ConfigError where it is none."""
    made: Verb | None = getattr(function, "__verb__", None)
    if made is None:
        raise ConfigError(f"{function.__qualname__} is declared as no verb")
    return made


@contextmanager
def acting(
    function: Callable[..., Any],
    target: object = None,
    *,
    by: By,
    reason: str = "",
    place: Place | None = None,
) -> Iterator[acts.Act]:
    """Open the act of a verb: permission and scope are checked, and the audit row is written.

    All in one transaction with the block. The place of the target is looked up, unless ``place``
    gives it: for what is about to be made.
    """
    made = of(function)
    with acts.on(
        made.name,
        kind=made.target.kind,
        id=target,
        permission=made.permission,
        by=by,
        reason=reason,
        needs_reason=made.needs_reason,
        place=place,
    ) as opened:
        yield opened


def deny(
    function: Callable[..., Any], error: JobsError | str, by: By, target: object = None
) -> JobsError:
    """Return the error, or the lack of a permission, with a row of outcome "denied"."""
    made = of(function)
    denied = Denied(error) if isinstance(error, str) else error
    return acts.deny(denied, by, made.name, kind=made.target.kind, id=target)

"""Functions as jobs, without a payload class.

::

    @jobs.task(queue="mail", max_attempts=5)
    def send_receipt(order_id: int, *, copy: bool = False) -> None: ...

    send_receipt.enqueue(order_id=7)
    send_receipt.enqueue(order_id=7, delay=60)      # with options of jobs.enqueue
    send_receipt.using(delay=60).enqueue(7)         # the same, known to type checkers
    send_receipt(7)                                 # a plain call
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial, update_wrapper
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    get_type_hints,
    overload,
)
from uuid import UUID

from pydantic import create_model

from jobs import registry
from jobs.context import Context
from jobs.engine import intake
from jobs.engine.drafts import Draft, Options
from jobs.engine.intake import Enqueued
from jobs.errors import HandlerError
from jobs.payloads import Payload

P = ParamSpec("P")
R = TypeVar("R")
Upcast = Callable[[dict[str, Any], int], dict[str, Any]]
CONTEXT = "ctx"
"""The name of the parameter that gets the job's context."""
_MODULES = ("tasks", "handlers", "jobs", "views", "models")
"""Modules that an app's kinds are not named after."""
_OPTIONS = frozenset(Options.__annotations__)
_FREE = frozenset({"construct", "copy", "dict", "json", "schema", "validate"})
"""Attributes of payloads that nothing uses any more; parameters may have their names."""


class Task(Generic[P, R]):
    """A function whose calls can be enqueued as jobs.

    ``payload`` is the class made of its parameters, and ``kind`` the name of its jobs.
    """

    def __init__(
        self,
        function: Callable[..., R],
        payload: type[Payload],
        options: Options | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.function, self.payload, self.kind = function, payload, payload.kind
        self._options: Options = options or {}
        self._signature = _without_context(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now."""
        return self.function(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Enqueue a call of the function, as ``jobs.enqueue`` does.

        Options of ``jobs.enqueue`` may stand among the arguments.
        """
        draft = self.draft(*args, **kwargs)
        return intake.enqueue(draft.payload, **_given(draft))

    def enqueue_many(
        self, calls: Iterable[Mapping[str, Any]], **options: Unpack[Options]
    ) -> list[UUID]:
        """Enqueue many calls, each by its arguments, as ``jobs.enqueue_many`` does."""
        bound = self.using(**options)
        call = cast("Callable[..., Draft]", bound.draft)
        return intake.enqueue_many([call(**arguments) for arguments in calls])

    def draft(self, *args: P.args, **kwargs: P.kwargs) -> Draft:
        """Return a call as a draft, for batches and chains."""
        given = {name: kwargs.pop(name) for name in _OPTIONS & kwargs.keys()}
        options = cast("Options", {**self._options, **given})
        try:
            arguments = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.kind}: {error}") from None
        return Draft(self.payload(**arguments), **options)

    def using(self, **options: Unpack[Options]) -> Task[P, R]:
        """Return the task with options of ``jobs.enqueue`` for its calls."""
        return type(self)(self.function, self.payload, {**self._options, **options})


class ContextTask(Task[P, R]):
    """A task whose function takes the job's context first, also in a plain call."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        """Call the function here and now."""
        return self.function(ctx, *args, **kwargs)


class _Decorator:
    """What ``task(…)`` with options returns."""

    def __init__(self, payload: dict[str, Any], rules: dict[str, Any]) -> None:
        self._payload, self._rules = payload, rules

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return _made(function, self._payload, self._rules)


@overload
def task(function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...
@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    *,
    kind: str = "",
    aliases: Iterable[str] = (),
    version: int = 1,
    upcast: Upcast | None = None,
    **rules: Any,
) -> _Decorator: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    kind: str = "",
    aliases: Iterable[str] = (),
    version: int = 1,
    upcast: Upcast | None = None,
    **rules: Any,
) -> Any:
    """Make jobs of a function's calls: ``@jobs.task``, or ``@jobs.task(queue=…)``.

    Its parameters become the payload, checked strictly by their types. A first parameter ``ctx``
    gets the job's context. ``kind`` names its jobs, by default after the app and the function;
    ``aliases``, ``version`` and ``upcast`` are those of payload classes. All other options are
    those of ``jobs.handler``. Raises HandlerError.
    """
    payload = {"kind": kind, "aliases": aliases, "version": version, "upcast": upcast}
    if function is None:
        return _Decorator(payload, rules)
    return _made(function, payload, rules)


def _made(function: Callable[..., Any], given: dict[str, Any], rules: dict[str, Any]) -> Any:
    if not inspect.isfunction(function):
        raise HandlerError(f"task: must decorate a function, got {function!r}")
    takes_context = CONTEXT in inspect.signature(function).parameters
    payload = _payload(function, **given)
    registry.handler(payload, **rules)(_runner(function, payload, takes_context))
    return (ContextTask if takes_context else Task)(function, payload)


def _payload(
    function: Callable[..., Any], *, kind: str, aliases: Iterable[str], version: int,
    upcast: Upcast | None,
) -> type[Payload]:  # fmt: skip
    """Return the payload class of a function's parameters."""
    name = function.__qualname__
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise HandlerError(f"task {name}: the type {error.name!r} is not known here") from None
    fields: dict[str, Any] = {}
    parameters = _without_context(function).parameters
    if CONTEXT in parameters:
        raise HandlerError(f"task {name}: ctx must be its first parameter")
    for parameter, found in parameters.items():
        if found.kind not in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY):
            raise HandlerError(f"task {name}: {found} cannot be stored by its name")
        if parameter in _OPTIONS:
            raise HandlerError(
                f"task {name}: {parameter!r} is an option of enqueue; name the parameter otherwise"
            )
        if parameter not in _FREE and hasattr(Payload, parameter):
            raise HandlerError(
                f"task {name}: {parameter!r} is an attribute of payloads; name the parameter "
                "otherwise"
            )
        if parameter not in hints:
            raise HandlerError(f"task {name}: the parameter {parameter!r} needs a type")
        default = ... if found.default is found.empty else found.default
        fields[parameter] = (hints[parameter], default)
    declared = {"kind": kind or _kind(function), "aliases": aliases, "version": version}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Field name .* shadows an attribute", UserWarning)
        made: type[Payload] = create_model(
            _class_name(function),
            __base__=Payload,
            __module__=function.__module__,
            __doc__=f"Arguments of {name}.",
            __cls_kwargs__=declared,
            **fields,
        )
    if upcast is not None:
        made.upcast = staticmethod(upcast)  # type: ignore[method-assign, assignment]
    return made


def _without_context(function: Callable[..., Any]) -> inspect.Signature:
    found = inspect.signature(function)
    parameters = list(found.parameters.values())
    if parameters and parameters[0].name == CONTEXT:
        parameters = parameters[1:]
    return found.replace(parameters=parameters)


def _class_name(function: Callable[..., Any]) -> str:
    return "".join(word.capitalize() for word in function.__name__.split("_"))


def _kind(function: Callable[..., Any]) -> str:
    """Return the app's name and the function's, so that a kind survives a move within the app."""
    parts = function.__module__.split(".")
    while len(parts) > 1 and parts[-1] in _MODULES:
        parts.pop()
    return f"{parts[-1]}.{function.__name__}"


def _runner(
    function: Callable[..., Any], payload: type[Payload], takes_context: bool
) -> Callable[..., Any]:
    """Return the handler, which calls the function with what the payload holds."""
    names = list(payload.model_fields)

    def called(ctx: Context, given: Payload) -> Callable[[], Any]:
        first = (ctx,) if takes_context else ()
        return partial(function, *first, **{name: getattr(given, name) for name in names})

    async def run_async(ctx: Context, payload: Payload) -> Any:
        return await called(ctx, payload)()

    def run(ctx: Context, payload: Payload) -> Any:
        return called(ctx, payload)()

    chosen: Callable[..., Any] = run_async if inspect.iscoroutinefunction(function) else run
    update_wrapper(chosen, function)
    del chosen.__wrapped__  # type: ignore[attr-defined]
    return chosen


def _given(draft: Draft) -> Options:
    return cast("Options", {name: getattr(draft, name) for name in _OPTIONS})

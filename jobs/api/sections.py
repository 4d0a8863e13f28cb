"""Sections: parts of the API that can be left out, with their operations.

::

    section = Section("jobs")

    @section.get("/jobs/{uuid:job_id}", "job_get", needs=VIEW_JOB, answer=JobOut)
    def job(request, job_id: UUID): ...

    section.does("job.retry", "/jobs/{uuid:job_id}/retry", "job_retry", answer=JobOut, show=_job)

An operation that does a verb takes its permission, its body and its summary from the declaration of
the verb, and is there as long as that is. Verbs of the section's nouns that have no operation here
get one that is made of their declaration alone.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

from ninja import Router
from ninja.constants import NOT_SET

from jobs.api import declared
from jobs.api.endpoints import Endpoint, operation
from jobs.operate import verbs


class Section:
    """A part of the API that can be left out: a name, its operations, and verbs by their nouns."""

    def __init__(
        self, name: str, nouns: Mapping[str, str] | None = None, *, login: Any = NOT_SET,
        **defaults: Any,
    ) -> None:  # fmt: skip
        self.name = name
        self.nouns = nouns or {}
        """Where the verbs of each noun are, like ``/jobs``."""
        self.login, self.defaults = login, defaults
        """The login of an app's own, and options of all operations."""
        self._planned: list[tuple[str, Callable[[Router], object]]] = []

    @property
    def router(self) -> Router:
        """A new router with the operations whose verbs are declared."""
        made = Router(tags=[self.name], auth=self.login)
        for verb, add in self._planned:
            if not verb or verbs.find(verb) is not None:
                add(made)
        done = {verb for verb, _ in self._planned}
        for noun, base in self.nouns.items():
            for missing in verbs.of_noun(noun):
                if missing.name not in done:
                    declared.add(made, missing, base, **self.defaults)
        return made

    def does(self, verb: str, path: str, id: str, **how: Any) -> None:
        """Add an operation made of the declaration of a verb.

        ``how`` are members of ``declared.Shape`` and options of ``operation``. A target that the
        path does not name is in the body.
        """

        def add(router: Router) -> None:
            if (found := verbs.find(verb)) is not None:
                declared.add(router, found, "", path=path, id=id, **{**self.defaults, **how})

        self._planned.append((verb, add))

    def get(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("GET", path, id, **how)

    def post(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("POST", path, id, **how)

    def patch(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("PATCH", path, id, **how)

    def delete(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("DELETE", path, id, **how)

    def _add(
        self, method: str, path: str, name: str, *, verb: str = "", **options: Any
    ) -> Callable[[Endpoint], Endpoint]:
        def plan(function: Endpoint) -> Endpoint:
            def add(router: Router) -> None:
                given = {**self.defaults, **options}
                for of_verb in ("translate", "is_camel"):
                    given.pop(of_verb, None)
                operation(router, method, path, name, verb=verb, **given)(_copy(function))

            self._planned.append((verb, add))
            return function

        return plan


def _copy(function: Any) -> Endpoint:
    """Return a function like this one: Ninja writes into what is registered."""
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(made, function)

"""The REST API: ready to be mounted, or as a router inside of a project's own ``NinjaAPI``.

::

    urlpatterns += [path("api/v1/", build_api().urls)]
    api.add_router("/jobs-desk", build_router(auth=my_login, include={"jobs", "queues"}))

``auth``, ``problem``, ``paging`` and ``idempotency`` are for endpoints of the project's own, which
``endpoints.operation`` makes behave like those here.
"""

from __future__ import annotations

from jobs.api import auth, conditional, idempotency, paging, problem
from jobs.api.ahead import prepared
from jobs.api.build import SECTIONS, add_rest, build_api, build_router
from jobs.api.declared import verb_router
from jobs.api.endpoints import operation
from jobs.api.inputs import In
from jobs.api.problem import Problem, install_problem_handlers
from jobs.api.requests import request_id
from jobs.api.sections import Section

__all__ = [
    "SECTIONS",
    "In",
    "Problem",
    "Section",
    "add_rest",
    "auth",
    "build_api",
    "build_router",
    "conditional",
    "idempotency",
    "install_problem_handlers",
    "operation",
    "paging",
    "prepared",
    "problem",
    "request_id",
    "verb_router",
]

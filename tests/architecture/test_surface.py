"""The public surface of the library: names that programs may rely on."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path

import pytest

import jobs
from jobs import client, flow, webhooks
from tests.architecture import sources
from tests.architecture.sources import ROOT

SURFACE = [
    "Context",
    "Delays",
    "Draft",
    "Exponential",
    "Job",
    "JobState",
    "JobsError",
    "Limit",
    "Payload",
    "RateLimited",
    "RetryAfter",
    "Sensitive",
    "Snooze",
    "Stopped",
    "Unique",
    "Unrecoverable",
    "batch",
    "breaker",
    "cancel",
    "chain",
    "emit",
    "ended",
    "enqueue",
    "enqueue_many",
    "explain",
    "get",
    "handler",
    "meter",
    "pause",
    "queue",
    "replay",
    "resume",
    "retry",
    "schedule",
    "task",
]


MODULES = {
    "jobs.acts": ["Act", "By", "Place", "Principal", "Scope", "add_permissions", "deny", "on",
                  "principal", "settle"],
    "jobs.api": ["In", "Problem", "auth", "build_api", "operation", "paging", "prepared",
                 "request_id"],
    "jobs.api.uploads": ["length", "login", "pieces", "streamed"],
    "jobs.asgi": ["get_asgi_application"],
    "jobs.backoff": ["Delays", "Exponential", "Fixed", "Immediate", "Linear"],
    "jobs.blobs": ["Blob", "LocalStore", "S3Store", "Store", "Upload", "store"],
    "jobs.bodies": ["bounded", "bounded_asgi"],
    "jobs.cache": ["RedisCache"],
    "jobs.client": client.__all__,
    "jobs.flow": flow.__all__,
    "jobs.demo": ["Act", "Verdict", "shown"],
    "jobs.effects": ["CircuitOpen", "Happened", "InDoubt", "Intent", "NotHappened", "Unknown",
                     "open_doubts", "resolve", "resolve_doubt"],
    "jobs.errors": ["JobsError"],
    "jobs.events": ["Event", "emit", "emit_many", "feed", "feed_head", "message", "set_redactor",
                    "subscriber", "unsubscribe"],
    "jobs.limits": ["Limit", "Rate", "Unique"],
    "jobs.logs": ["BindingFilter", "ConsoleFormatter", "JsonFormatter", "RedactingFilter",
                  "binding", "configure"],
    "jobs.machines": ["Edge", "Machine", "Moved", "machine"],
    "jobs.middleware": ["RequestMiddleware"],
    "jobs.metrics": ["Counter", "Gauge", "Histogram", "counter", "gauge", "histogram", "series",
                     "view", "waiting"],
    "jobs.problems": ["Count", "Problem", "count", "problem"],
    "jobs.realtime": [
        "AUTHENTICATORS", "Channel", "NotFound", "Only", "Refused", "websocket_urlpatterns",
    ],
    "jobs.retention": ["Keep", "sweeper"],
    "jobs.router": ["JobsRouter"],
    "jobs.sandbox": ["Limits", "Outcome", "run"],
    "jobs.signals": ["job_failed", "operator_action"],
    "jobs.statements": ["Columns", "Statement"],
    "jobs.types": ["Attempt", "Cancelled", "DeadLetter", "DeadLetterState", "Ended", "Enqueued",
                   "Explanation", "Vouched"],
    "jobs.verbs": ["Act", "By", "Place", "Principal", "Target", "Verb", "acting", "add_permissions",
                   "deny", "every", "find", "of", "of_app", "of_noun", "verb"],
    "jobs.webhooks": webhooks.__all__,
}  # fmt: skip
"""Names of modules that programs may rely on, too."""


@pytest.mark.parametrize(("module", "names"), MODULES.items())
def test_public_modules_have_these_names_and_say_what_they_are(
    module: str, names: list[str]
) -> None:
    found = import_module(module)
    for name in names:
        made = getattr(found, name)
        assert not callable(made) or made.__doc__, name


def test_the_public_names_are_these() -> None:
    assert jobs.__all__ == SURFACE


@pytest.mark.parametrize("name", SURFACE)
def test_a_public_name_is_there_and_no_module(name: str) -> None:
    assert not isinstance(getattr(jobs, name), type(jobs))


def test_the_root_has_no_other_public_attribute() -> None:
    for name in SURFACE:
        getattr(jobs, name)
    own = {name for name, value in vars(jobs).items() if not inspect.ismodule(value)}
    assert {name for name in own if not name.startswith("_")} == set(SURFACE)
    assert set(dir(jobs)) == {*SURFACE, *sources.PUBLIC_MODULES}


def test_a_public_module_needs_no_import_of_its_own() -> None:
    program = (
        "import django, jobs; django.setup()\n"
        f"for name in {sources.PUBLIC_MODULES}: print(getattr(jobs, name).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
    )  # fmt: skip
    assert done.stdout.split() == [f"jobs.{name}" for name in sources.PUBLIC_MODULES], done.stderr


def test_the_public_modules_are_those_of_one_list() -> None:
    assert jobs._MODULES == sources.PUBLIC_MODULES
    assert jobs._PROJECT_MODULES == sources.PROJECT_MODULES
    assert not {*sources.PUBLIC_MODULES} & {*sources.PROJECT_MODULES}


@pytest.mark.parametrize("name", [*sources.PUBLIC_MODULES, *sources.PROJECT_MODULES])
def test_a_public_module_says_what_it_is(name: str) -> None:
    assert import_module(f"jobs.{name}").__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'enqeue'"):
        jobs.enqeue  # type: ignore[attr-defined]  # noqa: B018


def test_no_submodule_hides_a_public_name() -> None:
    assert sources.hidden_names(ROOT, frozenset(SURFACE)) == []


def test_a_hiding_submodule_is_found(tmp_path: Path) -> None:
    for file in ("jobs/enqueue.py", "jobs/handler/__init__.py", "jobs/intake.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    assert sources.hidden_names(tmp_path, frozenset(SURFACE)) == ["enqueue", "handler"]


def test_the_types_are_shipped() -> None:
    assert resources.files("jobs").joinpath("py.typed").is_file()
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text()

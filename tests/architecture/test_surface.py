"""The public surface of the library: names that programs may rely on."""

from __future__ import annotations

from importlib import import_module, resources
from pathlib import Path

import pytest

import jobs
from tests.architecture import sources
from tests.architecture.sources import ROOT

SURFACE = [
    "Attempt",
    "BreakerError",
    "Changed",
    "CircuitOpen",
    "ConfigError",
    "Context",
    "DeadLetter",
    "DeadLetterState",
    "Delays",
    "Denied",
    "Draft",
    "DuplicateJob",
    "Edge",
    "EffectError",
    "Ended",
    "EnqueueError",
    "Enqueued",
    "Event",
    "EventError",
    "Exponential",
    "FeedGone",
    "Fixed",
    "HandlerError",
    "Happened",
    "IllegalMove",
    "Immediate",
    "InDoubt",
    "Intent",
    "InvalidOption",
    "InvalidPayload",
    "Job",
    "JobState",
    "JobsError",
    "Keep",
    "KeyConflict",
    "KeyTaken",
    "Limit",
    "Linear",
    "Machine",
    "MachineError",
    "Moved",
    "NotAllowed",
    "NotHappened",
    "Payload",
    "Rate",
    "RateLimited",
    "RetryAfter",
    "SealError",
    "Sensitive",
    "Snooze",
    "StaleClaim",
    "StaleState",
    "Stopped",
    "Unique",
    "Unknown",
    "UnknownBatch",
    "UnknownJob",
    "UnknownKind",
    "UnknownTarget",
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
    "feed",
    "feed_head",
    "handler",
    "machine",
    "replay",
    "resolve_doubt",
    "retry",
    "schedule",
    "sweeper",
]


MODULES = {
    "jobs.acts": ["Act", "By", "Place", "Principal", "Scope", "add_permissions", "deny", "on",
                  "principal", "settle"],
    "jobs.api": ["In", "Problem", "auth", "build_api", "operation", "paging", "request_id"],
    "jobs.asgi": ["get_asgi_application"],
    "jobs.demo": ["Act", "Verdict", "shown"],
    "jobs.logs": ["BindingFilter", "ConsoleFormatter", "JsonFormatter", "binding", "configure"],
    "jobs.middleware": ["RequestMiddleware"],
    "jobs.operate.webhooks": [
        "Made", "create", "delete", "deliveries", "edit", "every", "find", "pause", "ping",
        "redeliver", "resume", "rotate_secret",
    ],
    "jobs.realtime.access": ["AUTHENTICATORS"],
    "jobs.realtime.urls": ["websocket_urlpatterns"],
    "jobs.statements": ["Columns", "Statement"],
    "jobs.webhooks": ["BadSignature", "sign", "verify"],
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


def test_a_lazy_name_is_what_its_module_calls_so() -> None:
    for name, module in jobs._LAZY.items():
        assert getattr(jobs, name) is getattr(import_module(module), name)
    assert set(jobs._LAZY) <= set(SURFACE)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'enqeue'"):
        jobs.enqeue  # noqa: B018


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

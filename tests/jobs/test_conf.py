"""The JOBS setting: one validated value, or an error that names the key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks

from jobs import conf
from jobs.conf import Settings, parse
from jobs.errors import ConfigError
from jobs.limits import Limit


def test_no_settings_are_the_defaults() -> None:
    assert parse({}) == Settings()


def test_durations_may_be_numbers_or_timedeltas() -> None:
    assert parse({"LEASE": timedelta(minutes=1), "TICK": 1}) == Settings(LEASE=60.0, TICK=1.0)
    hour = parse({"DEAD_LETTER_RETENTION": 3600})
    assert hour == Settings(DEAD_LETTER_RETENTION=timedelta(hours=1))


@pytest.mark.parametrize(
    ("key", "guess"),
    [
        ("LEASES", "; did you mean 'LEASE'?"),
        ("lease", "; did you mean 'LEASE'?"),
        ("HARTBEAT", "; did you mean 'HEARTBEAT'?"),
        ("ZZZ", ""),
        (5, ""),
    ],
)
def test_an_unknown_key_is_refused_with_a_guess(key: Any, guess: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({key: 1})
    assert str(caught.value) == f"JOBS has no key {key!r}{guess}"


WRONG: list[tuple[str, Any]] = [
    ("LEASE", "15"),
    ("LEASE", None),
    ("LEASE", True),
    ("LEASE", 0),
    ("LEASE", -1),
    ("LEASE", float("nan")),
    ("LEASE", float("inf")),
    ("LEASE", 10**400),
    ("LEASE", 9.9),
    ("HEARTBEAT", 0),
    ("TIMEOUT", timedelta(0)),
    ("TIMEOUT", timedelta(days=400)),
    ("TICK", -0.1),
    ("REQUEUE_AFTER", 0),
    ("WAIT_TARGET", 0),
    ("OUTBOX_LAG_TARGET", -1),
    ("DRAIN", -1),
    ("GRACE", -1),
    ("GRACE", float("inf")),
    ("MAX_ATTEMPTS", 0),
    ("MAX_ATTEMPTS", 1001),
    ("MAX_ATTEMPTS", 5.0),
    ("MAX_ATTEMPTS", True),
    ("PAYLOAD_LIMIT", 255),
    ("PAYLOAD_LIMIT", 16 * 1024 * 1024 + 1),
    ("RESULT_LIMIT", "64k"),
    ("EVENT_LIMIT", 100),
    ("KEEP_FEED", 60),
    ("DEFAULT_QUEUE", ""),
    ("DEFAULT_QUEUE", "a b"),
    ("DEFAULT_QUEUE", 5),
    ("DATABASE", None),
    ("CONNECTION", 1),
    ("BORN_QUEUED", 1),
    ("BORN_QUEUED", "yes"),
    ("PREPARE", 1),
    ("DEAD_LETTER_RETENTION", "30d"),
    *[
        (f"KEEP_{what}", value)
        for what in (
            "COMPLETED",
            "FAILED",
            "CANCELLED",
            "EXPIRED",
            "BATCHES",
            "DEAD_LETTERS",
            "STATISTICS",
        )
        for value in ("a week", -1, timedelta(days=40_000))
    ],
    ("DEAD_LETTER_RETENTION", float("nan")),
    ("DEAD_LETTER_RETENTION", float("inf")),
    ("DEAD_LETTER_RETENTION", 0),
    ("DEAD_LETTER_RETENTION", timedelta(days=-1)),
    ("QUEUES", [("mail", Limit(1))]),
    ("QUEUES", {"mail": 5}),
    ("QUEUES", {"mail": None}),
    ("QUEUES", {"a b": Limit(1)}),
    ("QUEUES", {5: Limit(1)}),
    ("WORKERS", ["slow"]),
    ("WORKERS", {"slow": ["reports"]}),
    ("WORKERS", {"a b": {}}),
    ("WORKERS", {5: {}}),
    ("WORKERS", {"x" * 41: {}}),
    ("WORKERS", {"slow": {"queues": "reports"}}),
    ("WORKERS", {"slow": {"queues": []}}),
    ("WORKERS", {"slow": {"queues": ["a b"]}}),
    ("WORKERS", {"slow": {"queues": ["a", "a:2"]}}),
    ("WORKERS", {"slow": {"queues": ["a:0"]}}),
    ("WORKERS", {"slow": {"queues": [5]}}),
    ("WORKERS", {"slow": {"processes": 0}}),
    ("WORKERS", {"slow": {"processes": True}}),
    ("WORKERS", {"slow": {"concurrency": "4"}}),
    ("WORKERS", {"slow": {"concurrency": 1001}}),
    ("WORKERS", {"slow": {}, "rest": {"concurrency": 2}}),
    ("WEIGHTS", ["acme"]),
    ("WEIGHTS", {"acme": 0}),
    ("WEIGHTS", {"acme": -1}),
    ("WEIGHTS", {"acme": 101}),
    ("WEIGHTS", {"acme": 1.5}),
    ("WEIGHTS", {"acme": True}),
    ("WEIGHTS", {"ac\x1fme": 2}),
    ("WEIGHTS", {7: 2}),
    ("PREEMPTION_GRACE", -1),
    ("PREEMPTION_GRACE", float("nan")),
    ("PREEMPTION_GRACE", "30s"),
    ("PREEMPTION_LIMIT", -1),
    ("PREEMPTION_LIMIT", 1001),
    ("PREEMPTION_LIMIT", 1.0),
    ("PREEMPTION_LIMIT", True),
    ("CANCEL_GRACE", -0.1),
    ("CANCEL_GRACE", float("inf")),
    ("CANCEL_GRACE", None),
    ("KEYS", "AAAA"),
    ("KEYS", ["AAAA"]),
    ("INDEX_KEY", {"k": "AAAA"}),
    ("INDEX_KEY", None),
    ("WEBHOOKS", 1),
    ("WEBHOOK_LIMIT", 0),
    ("WEBHOOK_DISABLE_AFTER", 59),
    ("WEBHOOK_DISABLE_AFTER", "3d"),
    ("KEEP_DELIVERIES", -1),
    ("SCOPE", None),
    ("SCOPE", [7]),
    ("SCOPE", [""]),
    ("VERSION", 7),
    ("KEEP_AUDIT", -1),
    ("KEEP_BULKS", -1),
    ("KEEP_CAUSES", "90d"),
    ("API_DOCS", "yes"),
    ("API_RATES", {"read": "600"}),
    ("API_RATES", {"reads": "600/m"}),
    ("API_RATES", {"read": "0/m"}),
    ("API_PROXIES", -1),
    ("API_PROXIES", True),
    ("API_BODY_LIMIT", 10),
    ("API_NEEDS_IDEMPOTENCY_KEY", 1),
    ("BLOBS", "s3"),
    ("LOG_URL_TEMPLATE", "javascript:{job_id}"),
    ("LOG_URL_TEMPLATE", "//logs/{job_id}"),
    ("LOG_URL_TEMPLATE", "https://logs/{tenant}"),
    ("LOG_URL_TEMPLATE", "https://logs/{job_id"),
    ("LOG_URL_TEMPLATE", "https://logs/{job_id.x}"),
    ("LOG_URL_TEMPLATE", None),
    ("METRICS_TOKEN", "short"),
    ("METRICS_TOKEN", None),
    ("HTTP_ALLOW", "localhost"),
    ("HTTP_ALLOW", ["0.0.0.0/0"]),
    ("HTTP_ALLOW", [7]),
    ("HTTP_PORTS", 443),
    ("HTTP_PORTS", [0]),
    ("HTTP_PORTS", ["443"]),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_wrong_value_is_refused_by_name(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"JOBS\['{key}'\]"):
        parse({key: value})


def test_every_key_has_been_given_a_wrong_value() -> None:
    assert {key for key, _ in WRONG} >= set(Settings.__dataclass_fields__) - {"LISTEN"}


def test_limits_of_queues_and_weights_of_tenants_are_taken() -> None:
    limit = Limit(at_once=3, rate="100/s")
    taken = parse({"QUEUES": {"mail": limit}, "WEIGHTS": {"acme": 3, "": 2, "a b": 100}})
    assert dict(taken.QUEUES) == {"mail": limit}
    assert dict(taken.WEIGHTS) == {"acme": 3, "": 2, "a b": 100}


def test_a_lease_outlasts_two_heartbeats() -> None:
    assert parse({"LEASE": 4, "HEARTBEAT": 2}).LEASE == 4
    with pytest.raises(ConfigError, match=r"'LEASE'.*at least twice.*'HEARTBEAT'"):
        parse({"LEASE": 3.9, "HEARTBEAT": 2})


@pytest.mark.parametrize("raw", [None, [], "LEASE", 5])
def test_the_settings_are_a_dict(raw: Any) -> None:
    with pytest.raises(ConfigError, match="JOBS must be a dict"):
        parse(raw)


def test_a_change_of_the_setting_is_seen(settings: Any) -> None:
    assert conf.settings() == parse(settings.JOBS)
    settings.JOBS = {"LEASE": 20}
    assert conf.settings() == Settings(LEASE=20.0)
    assert conf.settings() is conf.settings()


def test_the_check_says_what_is_wrong(settings: Any) -> None:
    settings.JOBS = {"LAESE": 5}
    found = [m for m in run_checks(tags=["jobs"], databases=[]) if m.id == "jobs.E001"]
    assert [m.msg for m in found] == ["JOBS has no key 'LAESE'; did you mean 'LEASE'?"]
    settings.JOBS = {}
    assert not [m for m in run_checks(tags=["jobs"], databases=[]) if m.id == "jobs.E001"]


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        parse({}).LEASE = 1  # type: ignore[misc]

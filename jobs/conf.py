"""The JOBS setting as one validated value; nobody else reads it.

``conf.settings()`` answers the current value; a change of the Django setting (in tests) is seen.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from jobs import addresses, groups
from jobs.errors import ConfigError
from jobs.limits import Limit
from jobs.names import label_problem, name_problem

_LONGEST = timedelta(days=366).total_seconds()
_KEPT_LONGEST = timedelta(days=36600)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key of ``JOBS``, with its default. Durations are seconds or timedeltas."""

    DATABASE: str = "default"
    """Database alias that holds the tables of jobs."""
    CONNECTION: str = "default"
    """Entry of RQ_QUEUES whose Redis carries the hints."""
    DEFAULT_QUEUE: str = "default"
    """Queue of handlers that name none."""
    PAYLOAD_LIMIT: int = 65536
    """Largest payload, in bytes of JSON."""
    RESULT_LIMIT: int = 65536
    """Largest stored result, in bytes of JSON."""
    EVENT_LIMIT: int = 16384
    """Largest payload of an event, in bytes of JSON."""
    MAX_ATTEMPTS: int = 5
    """Attempts of handlers that name no number."""
    TIMEOUT: float = 300.0
    """Seconds that an attempt may take, for handlers that name no timeout."""
    LEASE: float = 15.0
    """Seconds after which a silent executor loses its jobs."""
    HEARTBEAT: float = 5.0
    """Seconds between two renewals of a lease."""
    DRAIN: float = 25.0
    """Seconds that a warm shutdown waits for running handlers."""
    GRACE: float = 1.5
    """Seconds from a timeout to the kill of its executor, for kinds that name none."""
    REQUEUE_AFTER: float = 2.0
    """Age at which a queued job whose id is in no list is pushed again."""
    TICK: float = 0.25
    """Longest pause of an idle dispatcher, in seconds."""
    BORN_QUEUED: bool = True
    """Whether due jobs may skip the dispatcher when nothing forbids it."""
    PREPARE: bool = False
    """Whether the hottest statement may be prepared; not behind a pooler of transactions."""
    DEAD_LETTER_RETENTION: timedelta = timedelta(days=30)
    """How long a dead letter may stay open."""
    KEEP_COMPLETED: timedelta = timedelta(days=7)
    """How long succeeded jobs stay, of kinds that say nothing else."""
    KEEP_FAILED: timedelta = timedelta(days=90)
    """How long failed jobs stay, of kinds that say nothing else."""
    KEEP_CANCELLED: timedelta = timedelta(days=30)
    """How long cancelled jobs stay."""
    KEEP_EXPIRED: timedelta = timedelta(days=30)
    """How long expired jobs stay."""
    KEEP_BATCHES: timedelta = timedelta(days=30)
    """How long batches stay that are done and whose members are gone."""
    KEEP_DEAD_LETTERS: timedelta = timedelta(days=90)
    """How long closed dead letters stay, unless their job goes first."""
    KEEP_FEED: timedelta = timedelta(days=7)
    """How long events can be read in the feed, rounded up to whole days."""
    KEEP_STATISTICS: timedelta = timedelta(days=30)
    """How long statistics by the minute stay."""
    WAIT_TARGET: float = 60.0
    """Seconds that a due job may wait before the overview calls it a problem."""
    OUTBOX_LAG_TARGET: float = 30.0
    """Seconds that an event may wait before the overview calls it a problem."""
    QUEUES: Mapping[str, Limit] = field(default_factory=dict)
    """Limits of whole queues, like ``{"email": jobs.Limit(at_once=10, rate="100/s")}``."""
    WORKERS: Mapping[str, Any] = field(default_factory=dict)
    """Groups of workers, like ``{"slow": {"queues": ["reports"], "processes": 4}, "rest": {}}``."""
    WEIGHTS: Mapping[str, int] = field(default_factory=dict)
    """Jobs that a tenant may start in one turn, like ``{"acme": 3}``; others start one."""
    PREEMPTION_GRACE: float = 30.0
    """Seconds after which a preempted handler that does not stop is killed, where it may be."""
    PREEMPTION_LIMIT: int = 3
    """How often one job may be preempted, of kinds that name no number."""
    CANCEL_GRACE: float = 10.0
    """Seconds after which a forced cancel kills a handler that does not stop."""
    HTTP_ALLOW: tuple[str, ...] = ()
    """Loopback and private networks, or hosts in them, that outgoing calls may reach."""
    HTTP_PORTS: tuple[int, ...] = (80, 443)
    """Ports that outgoing calls may reach, beside those of what HTTP_ALLOW opens."""
    KEYS: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys of protected values by their ids, the current one first; see docs/privacy.md."""
    INDEX_KEY: str = field(default="", repr=False)
    """Key of blind indexes."""
    WEBHOOKS: bool = False
    """Whether events are sent to webhooks."""
    WEBHOOK_LIMIT: int = 20
    """Webhooks that one tenant may have."""
    WEBHOOK_DISABLE_AFTER: timedelta = timedelta(days=3)
    """How long every try may fail before a webhook is disabled."""
    KEEP_DELIVERIES: timedelta = timedelta(days=30)
    """How long deliveries of webhooks stay, and held ones wait."""
    KEEP_AUDIT: timedelta = timedelta(days=730)
    """How long it can be looked up who did what."""
    KEEP_BULKS: timedelta = timedelta(days=90)
    """How long bulk operations stay that are over, with what became of each item."""
    KEEP_CAUSES: timedelta = timedelta(days=90)
    """How long causes of failures stay of which nothing dies any more."""
    VERSION: str = ""
    """The project's version, shown with its workers."""
    SCOPE: str | tuple[str, ...] = ""
    """Dotted path of a function that answers which tenants and queues a user may see, or a list of
    such functions, one for each app."""
    API_DOCS: bool = False
    """Whether the API has a page that shows it, and serves its OpenAPI without a key."""
    API_RATES: Mapping[str, str] = field(
        default_factory=lambda: {"read": "600/m", "write": "300/m", "refused": "30/m"}
    )
    """Requests that one principal may make, and failed logins of one address."""
    API_PROXIES: int = 0
    """Trusted proxies before the server, each of which adds to X-Forwarded-For."""
    API_BODY_LIMIT: int = 1024 * 1024
    """Largest body of a request, in bytes."""
    API_NEEDS_IDEMPOTENCY_KEY: bool = False
    """Whether a POST without Idempotency-Key is refused."""
    BLOBS: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The store of ``jobs.blobs``, like ``{"STORE": "local", "ROOT": "/srv/blobs"}``."""
    LOG_URL_TEMPLATE: str = ""
    """Your page of a job's log lines, like ``https://logs.example.org/?job={job_id}``."""
    METRICS_TOKEN: str = field(default="", repr=False)
    """What readers of the metrics show; without one, only this machine may read them."""

    def __post_init__(self) -> None:
        for problem in _contradictions(self):
            raise ConfigError(problem)


def _contradictions(s: Settings) -> list[str]:
    found = []
    for name in (
        "LEASE",
        "HEARTBEAT",
        "TIMEOUT",
        "TICK",
        "REQUEUE_AFTER",
        "WAIT_TARGET",
        "OUTBOX_LAG_TARGET",
    ):
        if not 0 < getattr(s, name) <= _LONGEST:
            found.append(f"JOBS[{name!r}] must be positive and at most 366 days")
    for name in ("DRAIN", "GRACE"):
        if not 0 <= getattr(s, name) <= _LONGEST:
            found.append(f"JOBS[{name!r}] must not be negative and at most 366 days")
    if s.DEAD_LETTER_RETENTION.total_seconds() <= 0:
        found.append("JOBS['DEAD_LETTER_RETENTION'] must be positive")
    for name in (
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "EXPIRED",
        "BATCHES",
        "DEAD_LETTERS",
        "STATISTICS",
        "DELIVERIES",
        "AUDIT",
        "BULKS",
        "CAUSES",
    ):
        if not timedelta(0) <= getattr(s, f"KEEP_{name}") <= _KEPT_LONGEST:
            found.append(f"JOBS['KEEP_{name}'] must not be negative and at most a hundred years")
    for path in s.SCOPE if isinstance(s.SCOPE, tuple) else ():
        if not isinstance(path, str) or not path:
            found.append(f"JOBS['SCOPE']: {path!r} is no dotted path of a function")
    if not 0 <= s.API_PROXIES <= 10:
        found.append("JOBS['API_PROXIES'] must lie between 0 and 10")
    if not 1024 <= s.API_BODY_LIMIT <= 64 * 1024 * 1024:
        found.append("JOBS['API_BODY_LIMIT'] must lie between 1 KiB and 64 MiB")
    for name, rate in dict[str, object](s.API_RATES).items():
        if name not in ("read", "write", "refused"):
            found.append(f"JOBS['API_RATES'] has no {name!r}: there are read, write and refused")
        if not isinstance(rate, str) or not re.fullmatch(r"[1-9][0-9]{0,8}/[smhd]", rate):
            found.append(f"JOBS['API_RATES'][{name!r}] must be like '600/m', got {rate!r}")
    if s.LOG_URL_TEMPLATE:
        found += _template_problems(s.LOG_URL_TEMPLATE)
    if s.METRICS_TOKEN and not 16 <= len(s.METRICS_TOKEN) <= 1000:
        found.append("JOBS['METRICS_TOKEN'] must have at least 16 characters")
    if not timedelta(minutes=1) <= s.WEBHOOK_DISABLE_AFTER <= _KEPT_LONGEST:
        found.append(
            "JOBS['WEBHOOK_DISABLE_AFTER'] must be a minute at least and a hundred years at most"
        )
    if not 1 <= s.WEBHOOK_LIMIT <= 1000:
        found.append("JOBS['WEBHOOK_LIMIT'] must lie between 1 and 1000")
    if s.HEARTBEAT * 2 > s.LEASE:
        found.append("JOBS['LEASE'] must be at least twice JOBS['HEARTBEAT']")
    if not 1 <= s.MAX_ATTEMPTS <= 1000:
        found.append("JOBS['MAX_ATTEMPTS'] must lie between 1 and 1000")
    if not timedelta(hours=1) <= s.KEEP_FEED <= _KEPT_LONGEST:
        found.append("JOBS['KEEP_FEED'] must be an hour at least and a hundred years at most")
    for name in ("PAYLOAD_LIMIT", "RESULT_LIMIT", "EVENT_LIMIT"):
        if not 256 <= getattr(s, name) <= 16 * 1024 * 1024:
            found.append(f"JOBS[{name!r}] must lie between 256 bytes and 16 MiB")
    for name in ("PREEMPTION_GRACE", "CANCEL_GRACE"):
        if not 0 <= getattr(s, name) <= _LONGEST:
            found.append(f"JOBS[{name!r}] must not be negative and at most 366 days")
    if not 0 <= s.PREEMPTION_LIMIT <= 1000:
        found.append("JOBS['PREEMPTION_LIMIT'] must lie between 0 and 1000")
    for queue, limit in dict[str, object](s.QUEUES).items():
        if problem := name_problem(queue):
            found.append(f"JOBS['QUEUES']: {problem}")
        if not isinstance(limit, Limit):
            found.append(f"JOBS['QUEUES'][{queue!r}] must be a jobs.Limit")
    found += groups.problems(s.WORKERS)
    for tenant, weight in dict[str, object](s.WEIGHTS).items():
        if problem := label_problem(tenant):
            found.append(f"JOBS['WEIGHTS']: tenant {problem}")
        if not isinstance(weight, int) or isinstance(weight, bool) or not 1 <= weight <= 100:
            found.append(f"JOBS['WEIGHTS'][{tenant!r}] must be a whole number from 1 to 100")
    found += [
        f"JOBS['HTTP_ALLOW']: {told}" for told in map(addresses.problem, s.HTTP_ALLOW) if told
    ]
    for port in s.HTTP_PORTS:
        if type(port) is not int or not 1 <= port <= 65535:
            found.append(f"JOBS['HTTP_PORTS']: {port!r} is not a port")
    if problem := name_problem(s.DEFAULT_QUEUE):
        found.append(f"JOBS['DEFAULT_QUEUE'] {problem}")
    return found


def _template_problems(template: str) -> list[str]:
    """What pages would fail at, or would link where no log is."""
    try:
        template.format(job_id="", kind="", correlation_id="")
    except (LookupError, ValueError, AttributeError):
        return [
            "JOBS['LOG_URL_TEMPLATE'] may name {job_id}, {kind} and {correlation_id}, "
            f"got {template!r}"
        ]
    if not re.match(r"https?://|/(?!/)", template):
        return ["JOBS['LOG_URL_TEMPLATE'] must begin with https://, http:// or /"]
    return []


_FIELDS = {f.name: f for f in fields(Settings)}


def _default(name: str) -> Any:
    field_ = _FIELDS[name]
    if field_.default_factory is not MISSING:
        return field_.default_factory()
    return field_.default


def parse(raw: object) -> Settings:
    """The validated settings; raises ConfigError that names the key and its likely spelling."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"JOBS must be a dict, got {type(raw).__name__}")
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in _FIELDS:
            near = difflib.get_close_matches(str(key).upper(), _FIELDS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"JOBS has no key {key!r}{hint}")
        values[key] = _coerced(key, value)
    return Settings(**values)


def _coerced(key: str, value: Any) -> Any:
    default = _default(key)
    if key == "SCOPE" and isinstance(value, list | tuple):
        return tuple(value)
    expected: type | tuple[type, ...] = type(default)
    if isinstance(default, float):
        if isinstance(value, timedelta):
            return value.total_seconds()
        if _is_number(value):
            return float(value)
        expected_name = "a number of seconds or a timedelta"
    elif isinstance(default, timedelta):
        if isinstance(value, timedelta):
            return value
        if _is_number(value):
            return timedelta(seconds=value)
        expected_name = "a timedelta or a number of seconds"
    elif isinstance(default, tuple):
        if isinstance(value, list | tuple):
            return tuple(value)
        expected_name = "a list"
    elif isinstance(default, Mapping):
        if isinstance(value, Mapping):
            return dict(value)
        expected_name = "a dict"
    elif isinstance(value, expected) and (not isinstance(value, bool) or isinstance(default, bool)):
        return value
    else:
        expected_name = f"of type {type(default).__name__}"
    is_secret = "KEY" in key or "TOKEN" in key or key == "BLOBS"
    shown = type(value).__name__ if is_secret else repr(value)
    raise ConfigError(f"JOBS[{key!r}] must be {expected_name}, got {shown}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12


_current: Settings | None = None


def settings() -> Settings:
    """The settings in force."""
    global _current
    if _current is None:
        _current = parse(getattr(django_settings, "JOBS", {}))
    return _current


def _forget(*, setting: str, **_: object) -> None:
    global _current
    if setting == "JOBS":
        _current = None


setting_changed.connect(_forget)

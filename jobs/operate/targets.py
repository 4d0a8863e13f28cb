"""What people act on: each sort of target, its ids, and the tenant and queue that each belongs to.

::

    PARCEL = Target("parcel", int, "parcels", rows=lambda: Parcel.objects.all(), tenant="shop")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from jobs import registry, scopes
from jobs.engine import sql
from jobs.errors import UnknownBatch, UnknownJob, UnknownTarget

if TYPE_CHECKING:
    from django.db.models import QuerySet


class Place(NamedTuple):
    """The tenant and queue of a target.

    None: it has no such thing. Empty: it belongs to nobody alone, so that only principals who see
    everything of its sort may touch it.
    """

    tenant: str | None = None
    queue: str | None = None


EVERYBODYS = Place("", "")
"""The place of what concerns all tenants and queues."""


@dataclass(frozen=True, slots=True)
class Target:
    """A sort of thing that people act on."""

    kind: str
    """As the audit and errors call it."""
    id: type = str
    plural: str = ""
    """As addresses of an app call it; ``kind`` and an s by default."""
    statement: str = ""
    """Selects the tenant and queue of an id."""
    find: Callable[[Any], Place] | None = None
    """Returns the place of an id, instead of a statement; raises ``UnknownTarget``."""
    rows: Callable[[], QuerySet[Any]] | None = None
    """The rows of an app's model, by their primary key, instead of either."""
    tenant: str = ""
    """Column of the rows that names the tenant; the rows concern all tenants without one."""
    queue: str | None = None
    """The queue that all the rows belong to, where they are about one."""

    def place(self, target: Any) -> Place:
        """Return the place of this id; raises ``UnknownTarget``, or one of its sorts."""
        if self.find is not None:
            return self.find(target)
        if not self.statement and self.rows is None:
            return EVERYBODYS
        if not is_id(target, self.id):
            raise self.unknown(target)
        if self.rows is None:
            found = sql.rows(self.statement, [target])
        else:
            rows = self.rows().using(sql.alias()).filter(pk=target)
            found = list(rows.values_list(self.tenant or "pk")[:1])
            found = [(str(found[0][0] or "") if self.tenant else "", self.queue)] if found else []
        if not found:
            raise self.unknown(target)
        return Place(*found[0])

    def locked(self, target: Any) -> Any:
        """Return the row of this id, locked until the end of the transaction of the act."""
        if self.rows is None:
            raise TypeError(f"target {self.kind!r} has no rows")
        rows = self.rows().using(sql.alias()).select_for_update(no_key=True, of=("self",))
        row = rows.filter(pk=target).first()
        if row is None:
            raise self.unknown(target)
        return row

    def unknown(self, target: Any) -> UnknownTarget:
        """Return what is raised where there is no such target, or none within the scope."""
        if self.kind == "job":
            return UnknownJob(target)
        return UnknownBatch(target) if self.kind == "batch" else UnknownTarget(self.kind, target)


def is_id(value: object, wanted: type) -> bool:
    """Whether the value can be an id of this type that PostgreSQL takes."""
    if not isinstance(value, wanted) or isinstance(value, bool):
        return False
    if isinstance(value, int):
        return 0 <= value < 2**63
    return not (isinstance(value, str) and "\x00" in value)


def _place_of_scope(scope: Any) -> Place:
    """A closed or limited scope belongs to those who see all that it concerns."""
    what, name = scopes.split(scopes.checked(scope))
    if what == "queue":
        return Place("", name)
    if what == "tenant":
        return Place(name, "")
    return EVERYBODYS


def _place_of_queue(name: Any) -> Place:
    return Place("", str(name))


def _place_of_schedule(name: Any) -> Place:
    """A schedule belongs to those to whom its jobs belong."""
    if not is_id(name, str):
        raise SCHEDULE.unknown(name)
    found = sql.rows(
        "SELECT coalesce(options->>'tenant', ''), coalesce(options->>'queue', ''), kind "
        "FROM jobs_schedule WHERE name = %s",
        [name],
    )
    if not found:
        raise SCHEDULE.unknown(name)
    [(tenant, queue, kind)] = found
    handler = registry.find(kind)
    return Place(tenant, queue or (handler.queue if handler else ""))


_QUEUE_OF_EVENT = """
CASE WHEN topic LIKE 'jobs.%%' AND topic NOT LIKE 'jobs.batch.%%' THEN coalesce(payload->>'queue',
  CASE WHEN payload->>'scope' LIKE 'queue:%%' THEN substr(payload->>'scope', 7) END, '') ELSE '' END
"""
"""Empty where an event is of no queue: who sees only some may read it, and does not decide."""

JOB = Target("job", UUID, statement="SELECT tenant, queue FROM jobs_job WHERE id = %s")
BATCH = Target("batch", UUID, statement="SELECT tenant, NULL FROM jobs_batch WHERE id = %s")
DEADLETTER = Target(
    "deadletter", int, statement="SELECT tenant, queue FROM jobs_deadletter WHERE id = %s"
)
EVENT = Target(
    "event",
    int,
    statement=f"SELECT tenant, {_QUEUE_OF_EVENT} FROM jobs_outbox WHERE id = %s",  # noqa: S608
)
EFFECT = Target(
    "effect",
    int,
    statement="SELECT j.tenant, j.queue FROM jobs_effect e JOIN jobs_job j ON j.id = e.job_id "
    "WHERE e.id = %s",
)
# A webhook hears of jobs of all queues, so that it is not for principals who see only some.
WEBHOOK = Target("webhook", UUID, statement="SELECT tenant, '' FROM jobs_webhook WHERE id = %s")
DELIVERY = Target(
    "delivery",
    UUID,
    statement="SELECT w.tenant, '' FROM jobs_webhookdelivery d "
    "JOIN jobs_webhook w ON w.id = d.webhook_id WHERE d.id = %s",
)
VIEW = Target(
    "view",
    int,
    statement="SELECT CASE WHEN is_shared THEN tenant ELSE nullif(tenant, '') END, NULL "
    "FROM jobs_savedview WHERE id = %s",
)
BREAKER = Target("breaker", statement="SELECT '', '' FROM jobs_breaker WHERE name = %s")
METER = Target("meter", statement="SELECT '', '' FROM jobs_meter WHERE name = %s")
WORKER = Target("worker", statement="SELECT '', '' FROM jobs_worker WHERE name = %s")
SCOPE = Target("scope", find=_place_of_scope)
QUEUE = Target("queue", find=_place_of_queue)
SCHEDULE = Target("schedule", find=_place_of_schedule)
BLACKOUT = Target("blackout", int)
BULK = Target("bulk", UUID)
CAUSE = Target("cause")
APIKEY = Target("apikey", int)
DEPLOY = Target("deploy")

_TARGETS: dict[str, Target] = {
    target.kind: target
    for target in (
        JOB, BATCH, DEADLETTER, EVENT, EFFECT, WEBHOOK, DELIVERY, VIEW, BREAKER, METER, WORKER,
        SCOPE, QUEUE, SCHEDULE, BLACKOUT, BULK, CAUSE, APIKEY, DEPLOY,
    )
}  # fmt: skip


def register(target: Target) -> None:
    """Make an app's target known by its kind."""
    _TARGETS.setdefault(target.kind, target)


def of_kind(kind: str) -> Target:
    """Return the target of this kind; one that concerns everybody where none is declared."""
    return _TARGETS.get(kind) or Target(kind)


def unknown(kind: str, target: object) -> UnknownTarget:
    """Return what is raised where there is no such target, or none within the scope."""
    return of_kind(kind).unknown(target)


def find(kind: str, target: Any) -> Place:
    """Return the place of the target; raises ``UnknownTarget``, or one of its sorts."""
    return of_kind(kind).place(target)

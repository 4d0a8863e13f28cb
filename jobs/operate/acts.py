"""Acting: allowed, within scope, and written down with what it has done, or not at all.

::

    with acting(retry, job_id, by=by, reason=reason) as act:    # of ``verbs``, which calls ``on``
        ...                                     # in one transaction with the row of the audit
        act.changed({"state": "failed"}, {"state": "pending"})

Whoever lacks the permission meets ``Denied``; what lies outside somebody's scope does not exist
for him. Both leave a row of outcome "denied"; a JobsError out of the block one of outcome
"refused", after everything else was taken back. Nothing inside the engine goes through here, and
no act lies within another: verbs use each other's ``carry_out``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn
from uuid import UUID

from django.db import transaction

from jobs.engine import sql
from jobs.errors import Denied, JobsError, UnknownTarget
from jobs.ids import uuid7
from jobs.jsontext import printable
from jobs.operate import records, targets
from jobs.operate.records import Record
from jobs.operate.targets import Place
from jobs.operate.words import REASON_LIMIT, checked_by, checked_reason
from jobs.principals import By, Principal, principal
from jobs.redaction import redact_text

NOWHERE = Place()
_MESSAGE_LIMIT = 500
_ID_LIMIT = 200


@dataclass(slots=True)
class Act:
    """What somebody is about to do, as the audit will show it."""

    principal: Principal
    action: str
    target_kind: str
    target: object
    reason: str
    place: Place = NOWHERE
    count: int = 1
    """How many things it concerns."""
    id: UUID = field(default_factory=uuid7)
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Whoever acts, as records name him."""
        return self.principal.name

    def changed(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """The audit shows what differs; secrets and payloads have no place here."""
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        self.detail["before"] = {name: before.get(name) for name in names}
        self.detail["after"] = {name: after.get(name) for name in names}

    def note(self, **details: Any) -> None:
        """The audit shows this, too."""
        self.detail.update(details)

    def concerns(self, target: object) -> None:
        """What was made, where it had no id before."""
        self.target = target

    def record(self, outcome: records.Outcome, **details: Any) -> Record:
        """The act as a row of the audit."""
        return Record(
            id=self.id,
            principal=self.principal,
            action=self.action,
            target_kind=self.target_kind,
            target_id="" if self.target is None else printable(str(self.target), _ID_LIMIT),
            tenant=self.place.tenant or "",
            queue=self.place.queue or "",
            count=self.count,
            reason=self.reason,
            outcome=outcome,
            detail={**self.detail, **details},
        )


@contextmanager
def on(
    action: str,
    *,
    kind: str,
    id: object,
    permission: str,
    by: By,
    reason: str = "",
    needs_reason: bool = False,
    place: Place | None = None,
) -> Iterator[Act]:
    """An act on a target of this kind.

    To whom it belongs is looked up, unless ``place`` says it: for what is about to be made, and
    for what ``targets`` does not know.
    """
    act = Act(_who(by), action, kind, id, "")
    try:
        _check_permission(act, permission, place)
        act.reason = _checked_reason(reason, needs_reason)
        with transaction.atomic(using=sql.alias()):
            act.place = targets.find(kind, id) if place is None else place
            if not act.principal.scope.covers(*act.place):
                raise _Hidden
            yield act
            records.write(act.record("done"))
    except _Hidden:
        _say_unknown(act)
    except Denied as error:
        if not error.audit:  # the verb itself has denied it, by a rule of its app
            _keep(error, act.record("denied", message=_told(error)))
        raise
    except JobsError as error:
        _keep(error, act.record("refused", message=_told(error), **_allowed(error)))
        raise


class _Hidden(Exception):
    """The target lies outside the scope."""


def _check_permission(act: Act, permission: str, place: Place | None) -> None:
    if act.principal.may(permission):
        return
    with suppress(JobsError):  # whether it exists is none of his business
        act.place = targets.find(act.target_kind, act.target) if place is None else place
    error = Denied(permission)
    _keep(error, act.record("denied", permission=permission))
    raise error


def _say_unknown(act: Act) -> NoReturn:
    error = targets.unknown(act.target_kind, act.target)
    _keep(error, act.record("denied", scope=True))
    raise error from None


def deny(error: JobsError, by: By, action: str, *, kind: str = "", id: object = None) -> JobsError:
    """The error, with a row of outcome "denied": for what a face refuses before any verb."""
    _keep(error, Act(_who(by), action, kind, id, "").record("denied", message=_told(error)))
    return error


def settle(error: BaseException) -> None:
    """What was denied or refused stands in the audit.

    To be called by code that has rolled a transaction back because of this error.
    """
    for record in getattr(error, "audit", ()):
        records.write(record)


def _keep(error: JobsError, record: Record) -> None:
    """The row is written, as far as the transaction around it lasts; the error remembers it."""
    error.audit = (*error.audit, record)
    if not sql.connection().needs_rollback:
        records.write(record)


def _who(by: By) -> Principal:
    who = principal(by)
    return replace(who, name=checked_by(who.name))


def _checked_reason(reason: object, needed: bool) -> str:
    """Return the reason as it is kept: people name addresses and documents in theirs."""
    if needed or not isinstance(reason, str):
        reason = checked_reason(reason)
    return printable(redact_text(printable(reason, REASON_LIMIT)), REASON_LIMIT)


def _told(error: JobsError) -> str:
    return printable(str(error), _MESSAGE_LIMIT)


def _allowed(error: JobsError) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("state", "allowed"):
        if (value := getattr(error, name, None)) and not isinstance(error, UnknownTarget):
            found[name] = value
    return found

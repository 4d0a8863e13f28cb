"""Verbs of the app: permission, scope, reason and audit, with the errors of this app."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jobs
from jobs import acts, verbs
from operations.errors import Refused

if TYPE_CHECKING:
    from jobs.acts import By


@contextmanager
def acting(
    function: Callable[..., Any], id: object, *, tenant: str, queue: str = "", by: By, reason: str
) -> Iterator[acts.Act]:
    """Run a verb; raise Refused where it may not be run, or its target is out of scope."""
    if not reason.strip():
        raise Refused(422, "invalid", "needs a reason", [("/reason", "must not be empty")])
    try:
        with verbs.acting(
            function, id, by=by, reason=reason, place=acts.Place(tenant, queue)
        ) as act:  # fmt: skip
            yield act
    except jobs.errors.Denied as error:
        raise _with_audit(
            Refused(403, "forbidden", f"needs the permission {error.permission}"), error
        ) from None
    except jobs.errors.UnknownTarget as error:
        raise _with_audit(Refused(404, "not-found", "not found"), error) from None
    except jobs.errors.NotAllowed as error:
        raise _with_audit(Refused(409, "conflict", str(error)), error) from None
    except (jobs.errors.KeyTaken, jobs.errors.EffectError, jobs.errors.UnknownJob) as error:
        raise Refused(409, "conflict", str(error)) from None


def _with_audit(refused: Refused, error: jobs.JobsError) -> Refused:
    refused.audit = error.audit
    return refused

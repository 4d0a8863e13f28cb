"""The side of a fleet that enqueues, and that asks the doctor: one JSON line in, one out.

A process of its own, because the fleet's servers are not those of the test session.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from uuid import UUID

import django


def main() -> None:
    django.setup()
    from jobs.engine import sql

    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = {"answer": respond(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sql.close()  # the servers may be gone by the next request
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def respond(request: Any) -> list[str]:
    """The ids of jobs given as (kind, payload, options); for "doctor", all violations it finds.

    A dict asks for a cancel, or for the start or the end of a bulk operation.
    """
    if request == "doctor":
        from jobs.operate import doctor

        return [str(violation) for violation in doctor.violations()]
    import jobs
    from jobs import registry

    if isinstance(request, dict) and "cancel" not in request:
        from jobs.operate import bulk

        who: dict[str, Any] = {"by": "somebody", "reason": "to see what becomes of it"}
        if "abort" in request:
            return [bulk.abort(UUID(request["abort"]), **who).state]
        care = bulk.Care(**request.get("care", {}))
        return [str(bulk.start(request["bulk"], query=request["query"], care=care, **who).id)]
    if isinstance(request, dict):
        return [str(jobs.cancel(UUID(request["cancel"]), **request["options"]).state)]
    drafts = []
    for kind, data, options in request:
        if "job_id" in options:
            options["job_id"] = UUID(options["job_id"])
        drafts.append((registry.get(kind).payload.build(data), options))
    if len(drafts) == 1:
        payload, options = drafts[0]
        return [str(jobs.enqueue(payload, **options).id)]
    ids = jobs.enqueue_many(jobs.Draft(payload, **options) for payload, options in drafts)
    return [str(job_id) for job_id in ids]


if __name__ == "__main__":
    main()

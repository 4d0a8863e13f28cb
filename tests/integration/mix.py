"""A process that does a bit of everything: enqueues every sort of job and uses the verbs.

``python -m tests.integration.mix <folder> <url of a webhook>``; the fleet does the rest.
"""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

import django

WHO: dict[str, Any] = {"by": "somebody", "reason": "a bit of everything"}


def main(folder: str, hook: str) -> None:
    django.setup()
    from jobs.operate import pauses, schedules, webhooks
    from tests.specimens import handlers

    webhooks.create(hook, tenant="*", topics=["test.*"], **WHO)
    schedules.create("tick", handlers.Noop(), interval=5, **WHO)
    schedules.run_now("tick", **WHO)
    enqueue_everything(folder)
    for scope in ("queue:default", "kind:test.noop", "tenant:acme", "key:k1"):
        pauses.pause(scope, running="stop", **WHO)
        enqueue_everything(folder)
        pauses.resume(scope, **WHO)
    schedules.remove("tick", **WHO)
    use_verbs()


def enqueue_everything(folder: str) -> None:
    import jobs
    from tests.specimens import handlers as h
    from tests.specimens.apart import Apart
    from tests.specimens.limited import Busy, Limited, Paced
    from tests.specimens.telling import Moves, Tells

    for n in range(3):
        jobs.enqueue(h.Noop(), tenant=["", "acme"][n % 2])
        jobs.enqueue(h.Noop(), unique=jobs.Unique(f"once {n}"), delay=0.05)
        jobs.enqueue(h.Sleep(seconds=0.01), exclusive="k1", priority=n)
        jobs.enqueue(h.Flaky(failures=2), exclusive=["", "k2"][n % 2])
        jobs.enqueue(h.Effect())
        jobs.enqueue(h.Outside(log=f"{folder}/outside"))
        jobs.enqueue(h.Fail(), exclusive="k3", expires=60)
        jobs.enqueue(Limited(), limit_key="ab"[n % 2], exclusive=["", "k4"][n % 2])
        jobs.enqueue(Paced())
        jobs.enqueue(Tells(number=n))
        jobs.enqueue(Moves(number=n))
        jobs.enqueue(Apart(how=["nothing", "fail", "exit"][n]), exclusive="k3", priority=n)
    jobs.enqueue(Busy(seconds=0.1), tenant="acme")
    jobs.enqueue(h.Noop(), delay=0.5, expires=0.1)
    jobs.enqueue_many([h.Noop() for _ in range(50)])
    jobs.enqueue_many(jobs.Draft(h.Noop(), exclusive=f"many {n % 7}") for n in range(14))
    for failing in (h.Noop(), h.Fail()):
        jobs.chain(h.Noop(), failing, h.Noop())
        with jobs.batch("part", on_complete=h.Noop(), on_failure=h.Echo(text="oh")) as batch:
            batch.add(failing)
            batch.add_many([h.Noop() for _ in range(5)])


def use_verbs() -> None:
    """Cancels, retries and replays, one by one and in bulk."""
    import jobs
    from jobs.engine import retention
    from jobs.operate import bulk, doctor
    from tests.specimens import handlers as h
    from tests.wait import wait_until

    def ended(job_id: UUID) -> str:
        return jobs.Job.objects.get(id=job_id).state

    waiting = jobs.enqueue(h.Noop(), delay=60, exclusive="k1")
    running = jobs.enqueue(h.Sleep(seconds=60), exclusive="k5", priority=100)
    wait_until(lambda: ended(running.id) == "running")
    for job in (waiting, running):
        jobs.cancel(job.id, force=True, **WHO)
    done, failed = (
        jobs.enqueue(h.Noop(), exclusive="k5", priority=9).id,
        jobs.enqueue(h.Fail(), priority=9).id,
    )
    wait_until(lambda: (ended(done), ended(failed)) == ("succeeded", "failed"), 30)
    jobs.retry(failed, **WHO)
    jobs.retry(running.id, **WHO)
    jobs.cancel(running.id, force=True, **WHO)
    jobs.replay(done, **WHO)
    jobs.explain(done)
    for action, query in (
        ("retry", "state:failed"), ("replay", "state:succeeded kind:test.noop"),
        ("cancel", "state:pending"),
    ):  # fmt: skip
        bulk.start(action, query=query, **WHO)
    list(jobs.events.feed())
    list(doctor.violations())
    wait_until(lambda: not jobs.Job.objects.filter(finished_at=None).exists(), 60)
    list(retention.sweep())


if __name__ == "__main__":
    main(*sys.argv[1:])

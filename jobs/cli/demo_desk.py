"""What people and programs do in ``jobs demo``: at the desk, and over its real REST API.

What is paused or drained has queues of its own, so that the other scenes do not wait for it.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any, cast

from jobs.cli.demo_flow import BY, QUEUE, FlowAct, at, payload
from jobs.client import ApiError, Client, Denied
from jobs.demo import Verdict
from jobs.engine import sql
from jobs.engine.intake import enqueue
from jobs.engine.leases import live_queues
from jobs.models import ApiKey, DeadLetter
from jobs.operate import apikeys, audit, bulk, causes, pauses, workers
from jobs.operate.bulkplans import Care
from jobs.operate.cancel import cancel
from jobs.operate.explain import explain
from jobs.operate.permissions import ENQUEUE_JOB, RETRY_JOB, VIEW_JOB
from jobs.principals import Principal
from jobs.states import FINAL_STATES, JobState

SIDE_QUEUE = "demo-side"
"""Is paused; the worker of the flow serves it, too."""
SPARE_QUEUE = "demo-spare"
"""Has a worker of its own, which is drained."""
SOMEBODY = Principal(BY, "cli")
DAY = timedelta(days=1)


class ABulkRetry(FlowAct):
    title = "a bulk retry of failed jobs"
    SIZE = 6

    def begin(self) -> None:
        self._bulk: Any = None
        for number in range(self.SIZE):
            self.enqueue("example.deliver", {"number": number}, tags=[self._tag()])

    def _tag(self) -> str:
        return f"demo-{self.mark}"

    def step(self) -> str:
        if self._bulk is not None or any(job.state != JobState.FAILED for job in self.jobs()):
            return ""
        query = f"state:failed kind:example.deliver tag:{self._tag()}"
        seen = bulk.preview("retry", query=query, by=SOMEBODY)
        self._seen = seen.eligible
        self._bulk = bulk.start(
            "retry", query=query, token=seen.token, by=SOMEBODY, reason="the provider is back",
            care=Care(canary=2, stop_at=0.5),
        ).id  # fmt: skip
        return f"bulk retry of {seen.eligible} jobs, two of them as canaries"

    def is_over(self) -> bool:
        return self._bulk is not None and super().is_over() and self._found().is_over

    def _found(self) -> Any:
        return bulk.find(self._bulk, by=SOMEBODY)

    def verdict(self) -> Verdict:
        if self._bulk is None:
            return False, self.jobs()[0].state, "there was nothing to retry"
        found = self._found()
        good = self.have_succeeded() and (found.state, found.done) == ("done", self._seen)
        return good, found.state, f"previewed {self._seen}, retried {found.done}"


class ACause(FlowAct):
    title = "a cause that is resolved"
    SIZE = 3

    def begin(self) -> None:
        self._fingerprint = ""
        for number in range(self.SIZE):
            self.enqueue("example.label", {"number": number})

    def step(self) -> str:
        if self._fingerprint or not super().is_over():
            return ""
        letters = DeadLetter.objects.using(sql.alias()).filter(job_id__in=self.ids)
        prints = sorted(set(letters.values_list("fingerprint", flat=True)))
        self._fingerprint = prints[0]
        self._made = len(prints)
        why = "the printer has a new driver"
        self._bulk = causes.discard_all(prints[0], by=SOMEBODY, reason=why).id
        causes.resolve(prints[0], by=SOMEBODY, reason=why)
        return f"cause {prints[0]} resolved"

    def is_over(self) -> bool:
        return bool(self._fingerprint) and bulk.find(self._bulk, by=SOMEBODY).is_over

    def verdict(self) -> Verdict:
        if not self._fingerprint:
            return False, self.jobs()[0].state, "nothing died"
        cause = causes.find(self._fingerprint, by=SOMEBODY)
        good = (cause.state, cause.open, self._made) == ("resolved", 0, 1)
        words = f"{self.SIZE} jobs, {self._made} cause, {cause.open} open"
        return good and cause.decided_by == BY, cause.state, words


class AProgram(FlowAct):
    title = "a program with a key of the API"

    def begin(self) -> None:
        self.key = apikeys.create(
            f"demo program {self.mark}",
            [VIEW_JOB, ENQUEUE_JOB, RETRY_JOB],
            tenants=[BY],
            expires_at=_now() + DAY,
            by=SOMEBODY,
            reason="to show it",
        )
        self._error = ""
        self._is_retried = False
        try:
            self._enqueue()
        except ApiError as error:
            self._error = str(error)

    def _desk(self) -> Client:
        return Client(f"{self.url}/api/v1", key=self.key.text, repeats=1, timeout=5)

    def _enqueue(self) -> None:
        with self._desk() as desk:
            options: dict[str, Any] = {"queue": QUEUE, "tenant": BY}
            made = desk.enqueue("example.deliver", {"number": 7}, **options)
            self._id = str(made["id"])

    def step(self) -> str:
        if self._error or self._is_retried:
            return ""
        try:
            with self._desk() as desk:
                if desk.job(self._id)["state"] != JobState.FAILED:
                    return ""
                desk.retry(self._id, reason="the provider is back")
                self._is_retried = True
        except ApiError as error:
            self._error = str(error)
            return f"the API said: {error}"
        return f"job {self._id} was enqueued and retried over {self.url}/api/v1"

    def is_over(self) -> bool:
        return bool(self._error) or (self._is_retried and self._state() in FINAL_STATES)

    def _state(self) -> str:
        with self._desk() as desk:
            return str(desk.job(self._id)["state"])

    def verdict(self) -> Verdict:
        if self._error or not self._is_retried:
            return False, "nothing", self._error or "its job did not fail"
        told = _acts(self.key.key, "done")
        state, good = self._state(), told == {"job.retry"}
        return good and state == JobState.SUCCEEDED, state, "enqueued, retried over HTTP"

    def leave(self) -> None:
        if hasattr(self, "key"):  # the demo may end before it begins
            apikeys.revoke(self.key.key.pk, by=SOMEBODY, reason="it was shown")


class ADenial(FlowAct):
    title = "an act that a key does not allow"

    def begin(self) -> None:
        self._key = apikeys.create(
            f"demo reader {self.mark}", [VIEW_JOB], tenants=[BY], by=SOMEBODY, reason="to show it"
        )
        self._denied = ""
        self.enqueue("example.greet", {"name": "somebody"}, delay=1)
        try:
            with Client(f"{self.url}/api/v1", key=self._key.text, repeats=1, timeout=5) as desk:
                desk.cancel(self.ids[0], reason="to be denied")
        except Denied as error:
            self._denied = error.detail
        except ApiError as error:
            self._denied = str(error)
        apikeys.revoke(self._key.key.pk, by=SOMEBODY, reason="it was shown")

    def verdict(self) -> Verdict:
        denied = _acts(self._key.key, "denied")
        if denied != {"job.cancel"}:
            return False, "nothing", self._denied or "it was allowed"
        return self.have_succeeded(), "denied", "job.cancel via api, in the audit"


class APause(FlowAct):
    title = "a job of a paused queue"
    SECONDS = 1.0

    def begin(self) -> None:
        # With an end, so that a demo that is broken off leaves nothing behind.
        self._scope, self._why = f"queue:{SIDE_QUEUE}", ""
        self._resumed: datetime | None = None
        end = _now() + timedelta(minutes=1)
        pauses.pause(self._scope, by=SOMEBODY, reason="to show it", until=end)
        made = enqueue(payload("example.greet", name="at last"), queue=SIDE_QUEUE, tenant=BY)
        self.ids = [made.id]
        self._began = time.monotonic()

    def step(self) -> str:
        if self._resumed is not None or time.monotonic() - self._began < self.SECONDS:
            return ""
        self._why = ", ".join(explain(self.ids[0]).codes)
        self.leave()
        return f"{self._scope} was paused for a second: job {self.ids[0]} waited ({self._why})"

    def leave(self) -> None:
        if self.ids and self._resumed is None:
            self._resumed = _now()
            pauses.resume(self._scope, by=SOMEBODY, reason="it was shown")

    def verdict(self) -> Verdict:
        [job] = self.jobs()
        if self._resumed is None:
            return False, job.state, "was not resumed"
        good = self.have_succeeded() and at(job.started_at) >= self._resumed
        return good and "pause" in self._why, job.state, "when it was resumed"


class ADrain(FlowAct):
    title = "a worker that is drained"

    def begin(self) -> None:
        self._name = ""
        self._late: float | None = None
        self._spare("example.occupy", seconds=3)

    def _spare(self, kind: str, **fields: Any) -> None:
        self.ids.append(enqueue(payload(kind, **fields), queue=SPARE_QUEUE, tenant=BY).id)

    def step(self) -> str:
        first = self.jobs()[0]
        # On a busy machine nobody may have looked while the job ran.
        if not self._name and first.state in (JobState.RUNNING, JobState.SUCCEEDED):
            seen = [w for w in workers.workers(by=SOMEBODY) if SPARE_QUEUE in w.queues]
            [self._name] = [w.name for w in seen if w.state in ("busy", "idle")]
            workers.drain(self._name, by=SOMEBODY, reason="to show it")
            return f"worker {self._name} was asked to drain"
        if len(self.ids) == 1 and first.state == JobState.SUCCEEDED and self._takes_no_more():
            self._spare("example.greet", name="nobody")
            self._late = time.monotonic()
        elif self._late is not None and time.monotonic() - self._late > 1:
            self._late = None
            cancel(self.ids[1], by=BY, reason="its worker takes no more")
        return ""

    def _takes_no_more(self) -> bool:
        """Return whether its worker, which was asked to drain, has begun to."""
        return bool(self._name) and SPARE_QUEUE not in live_queues()

    def _drains(self) -> bool:
        return workers.worker(self._name, by=SOMEBODY).state == "draining"

    def is_over(self) -> bool:
        return len(self.ids) == 2 and super().is_over()

    def verdict(self) -> Verdict:
        states = [str(job.state) for job in self.jobs()]
        if len(states) < 2:
            return False, "nothing", "its job did not end"
        good = states == [JobState.SUCCEEDED, JobState.CANCELLED] and self._drains()
        return good, workers.worker(self._name, by=SOMEBODY).state, "ended its job, took no other"


DESK: tuple[type[FlowAct], ...] = (ABulkRetry, ACause, AProgram, ADenial, APause, ADrain)


def _acts(key: ApiKey, outcome: str) -> set[str]:
    """What the key has done, as the audit names it."""
    actor = f"{key.name} ({key.prefix})"
    rows = audit.entries(by=SOMEBODY, actor=actor, outcome=outcome, limit=20).rows
    return {row.action for row in rows}


def _now() -> datetime:
    [(now,)] = sql.rows("SELECT jobs_clock()")
    return cast(datetime, now)

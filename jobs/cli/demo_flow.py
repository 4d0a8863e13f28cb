"""Flow control in ``jobs demo``: jobs that follow, exclude, hold back and stop each other.

Its jobs have a queue and a worker of their own, because other scenes kill the process they run in.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from jobs import registry
from jobs.demo import Act, Verdict
from jobs.engine import sql
from jobs.engine.chains import chain
from jobs.engine.drafts import Draft
from jobs.engine.intake import enqueue
from jobs.limits import Unique
from jobs.models import Batch, Job
from jobs.operate import batches, schedules
from jobs.operate.cancel import cancel
from jobs.payloads import Payload
from jobs.states import FINAL_STATES, JobState

QUEUE = "demo-flow"
BY = "demo"


def payload(kind: str, **fields: Any) -> Payload:
    """A payload of one of the examples."""
    return registry.get(kind).payload.build(fields)


class FlowAct(Act):
    """Of the examples, in a queue of their own."""

    def have_succeeded(self) -> bool:
        return all(job.state == JobState.SUCCEEDED for job in self.jobs())

    def enqueue(self, kind: str, fields: dict[str, Any], **options: Any) -> UUID:
        made = enqueue(payload(kind, **fields), queue=QUEUE, tenant=BY, **options)
        self.ids.append(made.id)
        return made.id


class ABatch(FlowAct):
    title = "a batch that calls back"
    SIZE = 24
    SECONDS = 0.4

    def begin(self) -> None:
        done = Draft(payload("example.tally", of="parcels"), queue=QUEUE)
        with batches.batch("parcels", tenant=BY, on_complete=done) as batch:
            self.batch = batch.id
            parcels = [
                payload("example.parcel", number=n, seconds=self.SECONDS) for n in range(self.SIZE)
            ]
            self.ids = batch.add_many(Draft(parcel, queue=QUEUE) for parcel in parcels)
        self._told = -1

    def step(self) -> str:
        found = batches.progress(self.batch)
        if found.done == self._told:
            return ""
        self._told = found.done
        eta = "" if found.eta is None else f", {found.eta:.1f} s left"
        return f"batch {found.name}: {found.done} of {found.total}{eta}"

    def is_over(self) -> bool:
        return super().is_over() and all(c.state in FINAL_STATES for c in self._callbacks())

    def verdict(self) -> Verdict:
        found = Batch.objects.using(sql.alias()).get(id=self.batch)
        called = [c.state for c in self._callbacks()]
        good = found.state == "done" and found.succeeded == self.SIZE
        words = f"{found.succeeded} of {found.total}, called back {len(called)} times"
        return (
            good and called == [JobState.SUCCEEDED],
            found.state,
            words.replace("1 times", "once"),
        )

    def _callbacks(self) -> list[Job]:
        known = Job.objects.using(sql.alias())
        return list(known.filter(kind="example.tally", correlation_id=str(self.batch)))


class AChain(FlowAct):
    title = "a chain that hands its results on"

    def begin(self) -> None:
        steps = [payload("example.add", number=n) for n in (1, 2, 3)]
        self.ids = chain(*(Draft(step, queue=QUEUE, tenant=BY) for step in steps))

    def verdict(self) -> Verdict:
        results = [job.result for job in self.jobs()]
        return results == [1, 3, 6], self.jobs()[-1].state, f"results {results}"


class AnExclusiveKey(FlowAct):
    title = "jobs of one exclusive key"

    def begin(self) -> None:
        for _ in range(3):
            self.enqueue("example.occupy", {"seconds": 0.3}, exclusive=f"lathe:{self.mark}")

    def verdict(self) -> Verdict:
        spans = sorted((at(job.started_at), at(job.finished_at)) for job in self.jobs())
        apart = all(before[1] <= after[0] for before, after in pairwise(spans))
        words = "one after the other" if apart else "at the same time"
        return apart and self.have_succeeded(), self.jobs()[-1].state, words


class ARate(FlowAct):
    title = "jobs at five a second"
    LEAST = timedelta(seconds=0.9)

    def begin(self) -> None:
        for number in range(6):
            self.enqueue("example.knock", {"number": number})

    def verdict(self) -> Verdict:
        # When they were let go; a busy machine may begin them a little later.
        starts = sorted(at(job.queued_at) for job in self.jobs())
        took = starts[-1] - starts[0]
        good = took >= self.LEAST and self.have_succeeded()
        return good, self.jobs()[-1].state, f"6 starts in {took.total_seconds():.1f} s"


class ADuplicate(FlowAct):
    title = "a second enqueue of the same key"

    def begin(self) -> None:
        options: dict[str, Any] = {
            "unique": Unique(f"greeting:{self.mark}"),
            "queue": QUEUE,
            "tenant": BY,
            "delay": 1,
        }
        first = enqueue(payload("example.greet", name="twice"), **options)
        self._second = enqueue(payload("example.greet", name="twice"), **options)
        self.ids = [first.id]

    def verdict(self) -> Verdict:
        [job] = self.jobs()
        same = self._second.deduplicated and self._second.id == job.id
        words = "answered the first" if same else "made another"
        return same and job.state == JobState.SUCCEEDED, job.state, words


class APreemption(FlowAct):
    title = "an urgent job that needs a key in use"

    def begin(self) -> None:
        key = f"stage:{self.mark}"
        self.enqueue("example.patient", {"seconds": 10}, exclusive=key)
        self.enqueue("example.urgent", {}, exclusive=key, priority=50, delay=1)

    def verdict(self) -> Verdict:
        patient, urgent = self.jobs()
        good = self.have_succeeded() and patient.preemptions == 1 and patient.failures == 0
        in_order = at(urgent.finished_at) <= at(patient.started_at)
        words = f"preempted {patient.preemptions} times".replace("1 times", "once")
        return good and in_order, urgent.state, words


class ACancel(FlowAct):
    title = "a running job that is cancelled"

    def begin(self) -> None:
        self.enqueue("example.patient", {"seconds": 30})
        self._asked = False

    def step(self) -> str:
        [job] = self.jobs()
        if self._asked or job.state != JobState.RUNNING:
            return ""
        self._asked = True
        cancel(job.id, by=BY, reason="to show it")
        return f"asked job {job.id} to stop"

    def verdict(self) -> Verdict:
        [job] = self.jobs()
        good = job.state == JobState.CANCELLED and job.cancel_by == BY
        return good, job.state, f"by {job.cancel_by}, {job.cancel_reason}"


class ASchedule(FlowAct):
    title = "a schedule whose slot comes"
    _is_there = False

    def begin(self) -> None:
        self._name = f"demo-{self.mark}"
        self._is_there = True
        greeting = payload("example.greet", name="on the hour")
        self._schedule = schedules.create(
            self._name, greeting, interval=5, by=BY, reason="to show it", queue=QUEUE, tenant=BY
        ).id

    def step(self) -> str:
        if self.ids:
            return ""
        known = Job.objects.using(sql.alias()).filter(schedule_id=self._schedule)
        self.ids = list(known.values_list("id", flat=True)[:1])
        if not self.ids:
            return ""
        self.leave()
        return f"schedule {self._name} made job {self.ids[0]}"

    def leave(self) -> None:
        if self._is_there:
            self._is_there = False
            schedules.remove(self._name, by=BY, reason="it was shown")

    def is_over(self) -> bool:
        return bool(self.ids) and super().is_over()

    def verdict(self) -> Verdict:
        if not self.ids:
            return False, "nothing", "no slot came"
        [job] = self.jobs()
        good = job.state == JobState.SUCCEEDED and job.slot_at is not None
        return good, job.state, "one job for its slot"


ACTS: tuple[type[FlowAct], ...] = (
    ABatch,
    AChain,
    AnExclusiveKey,
    ARate,
    ADuplicate,
    APreemption,
    ACancel,
    ASchedule,
)


def at(moment: datetime | None) -> datetime:
    """The moment; a job that never came so far makes the verdict bad."""
    return moment or datetime.max.replace(tzinfo=sql.rows("SELECT jobs_clock()")[0][0].tzinfo)

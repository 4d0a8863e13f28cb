"""Chains: jobs one after another, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from jobs.engine.drafts import Draft
from jobs.engine.intake import enqueue_many
from jobs.errors import InvalidOption
from jobs.ids import uuid7
from jobs.payloads import Payload


def chain(*steps: Payload | Draft) -> list[UUID]:
    """The ids of the jobs, each of which waits for the one before it.

    What happens to the rest when one fails is said by each step's ``on_parent_failure``. Whole
    graphs are enqueued by ``enqueue_many`` with chosen ids and ``after``.
    """
    if not steps:
        raise InvalidOption("steps", "a chain needs at least one job")
    drafts: list[Draft] = []
    for step in steps:
        draft = step if isinstance(step, Draft) else Draft(step)
        draft = replace(draft, job_id=draft.job_id or uuid7())
        if drafts:
            before = drafts[-1].job_id
            assert before is not None  # noqa: S101 - given two lines above
            draft = replace(draft, after=[*draft.after, before])
        drafts.append(draft)
    return enqueue_many(drafts)

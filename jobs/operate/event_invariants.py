"""The invariants of events: the feed, its head, and what is on its way there.

They follow the rules of ``jobs.operate.invariants``.
"""

from __future__ import annotations

from jobs.operate.invariants import Invariant

_BY_HAND = (
    "find what has written to these tables directly; consumers of the feed have to start again"
)
_LATE = "start a dispatcher (manage.py jobs dispatch) or a relay (manage.py jobs relay)"

EVENT_INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "feed_has_no_gap",
        "The positions of the feed are consecutive, and none is used twice.",
        """
WITH newest AS (SELECT position FROM jobs_feed ORDER BY position DESC LIMIT %(depth)s),
pairs AS (SELECT position, lag(position) OVER (ORDER BY position) AS before FROM newest)
SELECT position::text, 'comes after ' || before::text FROM pairs WHERE position - before <> 1
""",
        _BY_HAND,
        "one counter row, locked until commit by the transaction that assigns positions",
    ),
    Invariant(
        "feed_ends_at_head",
        "The feed starts after its floor and ends at its head.",
        """
WITH ends AS (SELECT (SELECT position FROM jobs_feed ORDER BY position LIMIT 1) AS first,
  (SELECT position FROM jobs_feed ORDER BY position DESC LIMIT 1) AS last)
SELECT 'feed', 'from ' || coalesce(first, floor + 1)::text || ' to '
  || coalesce(last, floor)::text || ', floor ' || floor::text || ', head ' || position::text
FROM jobs_feed_head, ends
WHERE coalesce(last, floor) <> position OR coalesce(first, floor + 1) <> floor + 1
""",
        _BY_HAND,
        "events, head and floor change in one transaction",
    ),
    Invariant(
        "event_is_relayed",
        "While an executor is alive, no event that can be published waits for long.",
        """
SELECT o.id::text, o.topic || ', written at ' || o.occurred_at::text FROM jobs_outbox o
WHERE o.state = 'pending' AND NOT o.held
  AND o.occurred_at < jobs_clock() - %(stuck)s * interval '1 s'
  AND EXISTS (SELECT 1 FROM jobs_lease
    WHERE dead_at IS NULL AND until > jobs_clock() AND NOT draining)
  -- One that was tried again, or let go by somebody, is old for another reason.
  AND jsonb_array_length(o.history) = 0
""",
        _LATE,
        "the relay of every dispatcher",
    ),
    Invariant(
        "held_event_has_reason",
        "An event is held back only by an older event with the same key that is not published yet.",
        """
SELECT o.id::text, o.topic || ' waits for nothing' FROM jobs_outbox o
WHERE o.held AND o.occurred_at < jobs_clock() - %(patience)s * interval '1 s'
  AND NOT EXISTS (SELECT 1 FROM jobs_outbox s WHERE s.tenant = o.tenant AND s.key = o.key
    AND s.id < o.id AND s.state IN ('pending', 'failed', 'parked'))
""",
        _LATE + ": it releases them within a minute",
        "publishing or discarding an event releases those that waited for it",
    ),
    Invariant(
        "waiting_delivery_has_job",
        "A delivery of a webhook is waiting if and only if an unfinished job will send it.",
        """
WITH newest AS (SELECT id, state, job_id FROM jobs_webhookdelivery
  ORDER BY created_at DESC, id DESC LIMIT %(depth)s)
SELECT d.id::text, coalesce('its job is ' || j.state, 'its job is not there')
FROM newest d LEFT JOIN jobs_job j ON j.id = d.job_id
WHERE d.state = 'waiting'
  AND (j.state IS NULL OR j.state NOT IN ('blocked', 'pending', 'queued', 'running'))
""",
        "send it again (manage.py jobs webhooks redeliver), or close it by hand",
        "the trigger jobs_job_close_delivery, however the job ends",
    ),
)

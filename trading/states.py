"""The state machines of links, imports and scorings."""

from __future__ import annotations

from jobs.machines import Edge, machine
from trading.models import BrokerConnection, ImportRun, ImportState, ScoreRun, ScoreState

_LINK = BrokerConnection.Status
I, S = ImportState, ScoreState  # noqa: E741
IMPORT_OPEN = (
    I.INIT, I.FETCH_PAGE, I.NORMALIZE, I.UPSERT, I.EMIT_PROGRESS, I.RETRY, I.SCORE_ENQUEUE,
)  # fmt: skip
SCORE_OPEN = (
    S.LOAD_TRADES, S.INDICATORS, S.HEURISTICS, S.PERSIST, S.EMIT_REFLECT, S.NEXT_BATCH,
)  # fmt: skip

link = machine(
    BrokerConnection,
    "status",
    [
        Edge("pause", _LINK.ACTIVE, _LINK.PAUSED, "a user pauses it, or the venue refuses its key"),
        Edge("resume", _LINK.PAUSED, _LINK.ACTIVE, "a user resumes it"),
        Edge("revoke", [_LINK.ACTIVE, _LINK.PAUSED], _LINK.REVOKED, "a user revokes it"),
    ],
)

imports = machine(
    ImportRun,
    "state",
    [
        Edge("begin", [I.INIT, I.RETRY, I.FAILED], I.FETCH_PAGE, "a worker runs its job"),
        Edge("read", I.FETCH_PAGE, I.NORMALIZE, "a page has arrived"),
        Edge("store", I.NORMALIZE, I.UPSERT, "its rows are valid"),
        Edge("publish", I.UPSERT, I.EMIT_PROGRESS, "its rows are stored"),
        Edge("next", I.EMIT_PROGRESS, I.FETCH_PAGE, "there is another page"),
        Edge("last", I.EMIT_PROGRESS, I.SCORE_ENQUEUE, "it was the last page"),
        Edge("finish", I.SCORE_ENQUEUE, I.DONE, "scoring is enqueued"),
        Edge("wait", I.FETCH_PAGE, I.RETRY, "the venue asks to wait, or cannot be reached"),
        Edge("fail", IMPORT_OPEN, I.FAILED, "its job has ended without success"),
    ],
)

scores = machine(
    ScoreRun,
    "state",
    [
        Edge("ask", S.LOAD_TRADES, S.INDICATORS, "a batch of trades is loaded"),
        Edge("judge", S.INDICATORS, S.HEURISTICS, "the indicators have arrived"),
        Edge("store", S.HEURISTICS, S.PERSIST, "the labels are known"),
        Edge("publish", S.PERSIST, S.EMIT_REFLECT, "the labels are stored"),
        Edge("next", S.EMIT_REFLECT, S.NEXT_BATCH, "the changes are published"),
        Edge("load", S.NEXT_BATCH, S.LOAD_TRADES, "there may be more trades"),
        Edge("finish", S.LOAD_TRADES, S.DONE, "no trade is left"),
        Edge("fail", SCORE_OPEN, S.FAILED, "its job has ended without success"),
        Edge("again", S.FAILED, S.LOAD_TRADES, "its job is retried"),
    ],
)

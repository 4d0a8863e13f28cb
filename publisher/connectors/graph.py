"""Meta's Graph API: its errors, and the lists that are searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from publisher import config
from publisher.connectors.base import Run
from publisher.connectors.client import MOST_PAGES, Api, bearer, rows_of
from publisher.errors import Action, ProviderError, Unclear

ACTIONS: dict[int, Action] = {
    4: "retry", 17: "retry", 32: "retry", 341: "retry", 613: "retry", 9007: "retry",
    80001: "later", 80002: "later", 102: "token", 190: "token", 506: "already",
}  # fmt: skip
"""What to do about an error code; others are permanent. Codes 1 and 2 do not say what happened."""
SUBCODES: dict[int, Action] = {
    2207001: "retry", 2207003: "retry", 2207020: "retry", 2207027: "retry", 2207032: "retry",
    2207053: "retry", 2207042: "later", 2207051: "permanent", 2207057: "permanent",
}  # fmt: skip
"""Subcodes of Instagram, which come before the code."""
LATER = 3600.0


def api_of(run: Run) -> Api:
    """Return the Graph API for the account of the run."""
    base = run.account.base_url or config.settings().GRAPH_URL
    return Api(run, "meta", base, judge, bearer)


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of the Graph API means."""
    raw = body.get("error")
    error: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    code, subcode = _number(error.get("code")), _number(error.get("error_subcode"))
    name = f"meta {code or status}" + (f"/{subcode}" if subcode else "")
    if code in (1, 2):
        return Unclear(name)
    action = SUBCODES.get(subcode) or ACTIONS.get(code, "permanent")
    if code == 368 and "already posted" in str(error.get("message", "")).lower():
        action = "already"
    if status == 401 and not code:
        action = "token"
    if action == "permanent" and error.get("is_transient") is True:
        action = "retry"
    return ProviderError(action, name, LATER if action == "later" else 0)


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def each(api: Api, path: str, **params: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a list, over all of its pages."""
    after: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        answer = api.get(path, **params, **after)
        yield from rows_of(answer, "data")
        paging = answer.get("paging") or {}
        cursor = (paging.get("cursors") or {}).get("after")
        if not cursor or not paging.get("next"):
            return
        after = {"after": str(cursor)}
    raise Unclear("the list has no end")

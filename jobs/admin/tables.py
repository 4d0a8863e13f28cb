"""Lists page by page without counting: one row more than shown says that there are more."""

from __future__ import annotations

from typing import Any

from django.core import signing
from django.db.models import Q, QuerySet
from django.http import HttpRequest

PAGE = 25
# Without a moment in it: a page that has not changed stays the same text.
_signer = signing.Signer(salt="jobs.admin.place")


def page(
    request: HttpRequest, rows: QuerySet[Any], *order: str, size: int = PAGE
) -> dict[str, Any]:
    """The rows behind the place that the address names, and the address of the next page.

    ``order`` is one or two columns, descending with a minus sign; the last one is unique.
    """
    place = _read(request.GET.get("after", ""), len(order))
    if place is not None:
        rows = rows.filter(_behind(order, place))
    found = list(rows.order_by(*order)[: size + 1])
    more = len(found) > size
    found = found[:size]
    given = request.GET.copy()
    for name in ("_fragment", "_look", "_stream", "after"):
        given.pop(name, None)
    first = f"?{given.urlencode()}"
    following = ""
    if more:
        last = [_text(getattr(found[-1], name.lstrip("-"))) for name in order]
        given["after"] = _signer.sign_object(last)
        following = f"?{given.urlencode()}"
    return {"rows": found, "next": following, "first": first if place is not None else ""}


def _text(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)


def _read(text: str, size: int) -> list[Any] | None:
    """The place, where the text is one that a page gave."""
    if not text:
        return None
    try:
        place = _signer.unsign_object(text)
    except signing.BadSignature:
        return None
    return place if isinstance(place, list) and len(place) == size else None


def _behind(order: tuple[str, ...], place: list[Any]) -> Q:
    found = Q()
    for n, name in enumerate(order):
        sign = "lt" if name.startswith("-") else "gt"
        same = {order[m].lstrip("-"): place[m] for m in range(n)}
        found |= Q(**same, **{f"{name.lstrip('-')}__{sign}": place[n]})
    return found

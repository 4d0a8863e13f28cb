"""Saved views: a query of the list of jobs under a name, for oneself or for everybody.

A view holds words, not rows: readers find what they may see themselves. One's own views are
one's own affair; sharing one, and changing what is shared, needs ``share_view``, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from pydantic import Field

from jobs.engine import sql
from jobs.errors import Denied, InvalidOption, UnknownTarget
from jobs.models import SavedView
from jobs.names import label_problem
from jobs.operate.acts import Act
from jobs.operate.permissions import SAVE_VIEW, SHARE_VIEW
from jobs.operate.query import parse
from jobs.operate.search import TABS
from jobs.operate.search import Tab as Tab
from jobs.operate.targets import VIEW, Place
from jobs.operate.verbs import acting, deny, verb
from jobs.principals import By, Principal, principal

MOST = 100
"""This many views may one person keep."""
NAME_LIMIT = 80
QUERY_LIMIT = 2000
_SEED = 0x76696577
Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
Words = Annotated[str, Field(max_length=QUERY_LIMIT)]
_LOCK = "SELECT 1 FROM pg_advisory_xact_lock(hashtextextended(%s, %s))"
_SHOWN = ("name", "query", "tab", "tenant", "is_shared")


@verb("view.save", on=VIEW, permission=SAVE_VIEW, also=(SHARE_VIEW,), new=True)
def save(
    name: Name,
    query: Words = "",
    *,
    by: By,
    tab: Tab = "all",
    shared: bool = False,
    tenant: Annotated[str, Field(max_length=120)] = "",
    reason: str = "",
) -> SavedView:
    """Save a query under a name; a shared view is visible to all who see its tenant."""
    who = principal(by)
    if _flag(shared):
        _check_sharing(save, by)
    place = Place(_tenant(tenant) if tenant or shared else None)
    with acting(save, by=by, reason=reason, place=place) as act:
        row = SavedView(
            name=_name(name), query=_query(query), tab=_tab(tab), tenant=tenant,
            is_shared=shared, owner=act.name, keeper=who.identity,
        )  # fmt: skip
        # Two of the same person's are counted one after the other.
        sql.rows(_LOCK, [row.keeper, _SEED])
        if _rows().filter(keeper=row.keeper).count() >= MOST:
            raise InvalidOption("name", f"comes on top of {MOST} views: remove one of yours first")
        _store(row, act)
        act.concerns(row.pk)
    found: SavedView = _rows().get(pk=row.pk)
    return found


@verb("view.edit", on=VIEW, permission=SAVE_VIEW, also=(SHARE_VIEW,))
def edit(
    view_id: int,
    *,
    by: By,
    name: Name | None = None,
    query: Words | None = None,
    tab: Tab | None = None,
    shared: bool | None = None,
    reason: str = "",
) -> SavedView:
    """Change a view; what is not given stays."""
    if shared is not None and _flag(shared):
        _check_sharing(edit, by, view_id)
    _check_shared(edit, by, view_id)
    with _on(edit, view_id, by, reason) as (act, row):
        before = {name: getattr(row, name) for name in _SHOWN}
        row.name = row.name if name is None else _name(name)
        row.query = row.query if query is None else _query(query)
        row.tab = row.tab if tab is None else _tab(tab)
        row.is_shared = row.is_shared if shared is None else shared
        _store(row, act, before)
    return row


@verb("view.remove", on=VIEW, permission=SAVE_VIEW, also=(SHARE_VIEW,))
def remove(view_id: int, *, by: By, reason: str = "") -> None:
    """Remove a view; no job is touched."""
    _check_shared(remove, by, view_id)
    with _on(remove, view_id, by, reason) as (act, row):
        act.changed({name: getattr(row, name) for name in _SHOWN}, {})
        row.delete(using=sql.alias())


def every(*, by: By) -> list[SavedView]:
    """One's own views, and those that are shared with one; by name."""
    who = principal(by)
    if not who.may("view_job"):
        raise Denied("view_job")
    return list(_seen(who).order_by("-is_shared", "name", "id"))


def find(view_id: int, *, by: By) -> SavedView:
    """The view, if it is one's own or shared with one; raises UnknownTarget."""
    who = principal(by)
    row: SavedView | None = _seen(who).filter(pk=view_id).first() if _is_id(view_id) else None
    if row is None or not who.may("view_job"):
        raise UnknownTarget("view", view_id)
    return row


def is_own(row: SavedView, by: By) -> bool:
    """Whether it was kept by the caller."""
    return bool(row.keeper == principal(by).identity)


@contextmanager
def _on(
    function: Callable[..., Any], view_id: int, by: By, reason: str
) -> Iterator[tuple[Act, SavedView]]:
    """Open an act on a view that may be seen, and lock it."""
    who = principal(by)
    with acting(function, view_id, by=by, reason=reason) as act:
        row = _seen(who).select_for_update().filter(pk=view_id).first()
        # Others' views may show jobs of any queue.
        if row is None or (who.scope.queues is not None and not is_own(row, who)):
            raise UnknownTarget("view", view_id)
        yield act, row


def _rows() -> Any:
    return SavedView.objects.using(sql.alias())


def _seen(who: Principal) -> Any:
    shared = Q(is_shared=True)
    if who.scope.tenants is not None:
        shared &= Q(tenant__in=sorted(who.scope.tenants))
    return _rows().filter(Q(keeper=who.identity) | shared)


def _store(row: SavedView, act: Act, before: dict[str, Any] | None = None) -> None:
    try:
        with transaction.atomic(using=sql.alias()):
            row.save(using=sql.alias(), force_insert=row.pk is None)
    except IntegrityError:
        raise InvalidOption("name", "is that of another view of yours") from None
    act.changed(before or {}, {name: getattr(row, name) for name in _SHOWN})


def _check_shared(function: Callable[..., Any], by: By, view_id: int) -> None:
    """What is shared is changed by those who may share."""
    if _is_id(view_id) and _seen(principal(by)).filter(pk=view_id, is_shared=True).exists():
        _check_sharing(function, by, view_id)


def _check_sharing(function: Callable[..., Any], by: By, view_id: int | None = None) -> None:
    if not principal(by).may(SHARE_VIEW):
        raise deny(function, SHARE_VIEW, by, view_id)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _name(value: object) -> str:
    if problem := label_problem(value, NAME_LIMIT):
        raise InvalidOption("name", problem)
    if not str(value).strip():
        raise InvalidOption("name", "is empty")
    return str(value).strip()


def _query(value: object) -> str:
    if problem := label_problem(value, QUERY_LIMIT):
        raise InvalidOption("query", problem)
    parse(str(value))
    return str(value).strip()


def _tab(value: object) -> str:
    if value not in TABS:
        raise InvalidOption("tab", f"must be one of {', '.join(TABS)}, got {value!r}")
    return str(value)


def _tenant(value: object) -> str:
    if problem := label_problem(value):
        raise InvalidOption("tenant", problem)
    return str(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption("shared", "must be True or False")
    return value

"""Importing fills: a page is fetched, then written in one transaction with its cursor."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, NoReturn

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Coalesce, Greatest

import jobs
from jobs.flow import MeterFull
from trading import events, limits, states, venues
from trading.clients.venue import Page
from trading.clock import now
from trading.config import STRETCH, WAIT_LIMIT
from trading.errors import (
    CursorRefused,
    KeyRefused,
    Limited,
    VenueAway,
    VenueError,
)
from trading.fills import Fill, counted
from trading.models import BiasTag, BrokerConnection, ImportRun, ImportState, Trade
from trading.payloads import ImportJob, tenant_of
from trading.scoring import enqueue as enqueue_score

RESTARTS = 3
_COLUMNS = (
    "trade_id", "order_id", "symbol", "base", "quote", "side", "type", "qty", "price", "fee",
    "fee_asset", "ts", "sequence",
)  # fmt: skip


class Failed(jobs.JobsError):
    """The attempt has failed and may be repeated; names a code."""


def run(ctx: jobs.Context, payload: ImportJob) -> dict[str, Any]:
    """Import page by page; raise the outcome of the job otherwise."""
    if ctx.tenant != tenant_of(payload.userId):
        raise jobs.Unrecoverable("NOT_YOURS")
    row = ImportRun.objects.filter(pk=ctx.job_id, user_id=payload.userId).first()
    if row is None:
        raise jobs.Unrecoverable("NOT_FOUND")
    if row.state == ImportState.DONE:
        return _result(row)
    began = time.monotonic()
    while True:
        page = _fetch(ctx, row)
        if _store(ctx, row, page):
            ctx.log.info("imported %d fills, %d new", row.fetched, row.stored)
            return _result(row)
        ctx.checkpoint()
        if time.monotonic() - began > STRETCH:
            raise jobs.Snooze(0, "others may run")


def _result(row: ImportRun) -> dict[str, Any]:
    return {
        "pages": row.pages, "fetched": row.fetched, "stored": row.stored,
        "conflicts": row.conflicts, "skipped": row.skipped,
    }  # fmt: skip


# ---- fetching


def _fetch(ctx: jobs.Context, row: ImportRun) -> Page:
    link = BrokerConnection.objects.get(pk=row.connection_id)
    if link.status != BrokerConnection.Status.ACTIVE:
        _give_up(
            ctx, row,
            "LINK_REVOKED" if link.status == BrokerConnection.Status.REVOKED else "LINK_PAUSED",
        )  # fmt: skip
    if not venues.is_on(link.broker):
        _give_up(ctx, row, "VENUE_OFF")
    if row.state != ImportState.FETCH_PAGE:
        with transaction.atomic():
            ctx.fence()
            states.imports.move(row, ImportState.FETCH_PAGE, by="worker", error="")
    meter, weight = limits.of_account(link.broker, row.user_id)
    try:
        meter.take(weight)
        with ctx.span("import.page", page=row.pages + 1):
            return _read(link, row)
    except MeterFull:
        _wait(ctx, row)
        raise
    except Limited as error:
        _wait(ctx, row)
        limits.close(meter, error)
        meter.take(weight)  # raises: the job waits without using an attempt
        raise jobs.Snooze(error.seconds, error.code) from None
    except CursorRefused:
        _restart(ctx, row)
        return _fetch(ctx, row)
    except KeyRefused as error:
        _pause(ctx, link, error.code)
        _give_up(ctx, row, error.code)
    except VenueAway as error:
        with transaction.atomic():
            ctx.fence()
            states.imports.move(row, ImportState.RETRY, by="worker", error=error.code)
        raise Failed(error.code) from None
    except VenueError as error:
        _give_up(ctx, row, error.code)


def _read(link: BrokerConnection, row: ImportRun) -> Page:
    venue = venues.of(link.broker)
    try:
        return venue.fills(venues.account_of(link), row.since, row.cursor)
    except KeyRefused:
        if not link.refresh_token:
            raise
        # A token may end before its time: the next one decides.
        return venue.fills(venues.account_of(link, is_refused=True), row.since, row.cursor)


def _wait(ctx: jobs.Context, row: ImportRun) -> None:
    """Note that the venue asks to wait; give up after a day of it."""
    moment = now()
    since = row.waiting_since or moment
    if moment - since >= WAIT_LIMIT:
        _give_up(ctx, row, "VENUE_LIMITED_FOR_A_DAY")
    with transaction.atomic():
        ctx.fence()
        states.imports.move(
            row, ImportState.RETRY, by="worker", error="VENUE_LIMITED", waiting_since=since
        )


def _restart(ctx: jobs.Context, row: ImportRun) -> None:
    """Start again at ``since``; fills that are stored stay stored."""
    if row.restarts >= RESTARTS:
        _give_up(ctx, row, "CURSOR_REFUSED")
    row.cursor, row.mark, row.restarts = "", "", row.restarts + 1
    with transaction.atomic():
        ctx.fence()
        row.save(update_fields=["cursor", "mark", "restarts"])


def _pause(ctx: jobs.Context, link: BrokerConnection, code: str) -> None:
    with transaction.atomic():
        ctx.fence()
        status = BrokerConnection.Status
        if BrokerConnection.objects.filter(pk=link.pk, status=status.ACTIVE).exists():
            states.link.move(link.pk, status.PAUSED, by="worker", why=code, error=code)


def _give_up(ctx: jobs.Context, row: ImportRun, code: str) -> NoReturn:
    with transaction.atomic():
        ctx.fence()
        states.imports.move(row, ImportState.FAILED, by="worker", error=code, ended_at=now())
    raise jobs.Unrecoverable(code)


# ---- storing


def _store(ctx: jobs.Context, row: ImportRun, page: Page) -> bool:
    """Write the page, its cursor and the event in one transaction; return whether it is the last.

    The values of ``row`` are those of the database again if the transaction fails.
    """
    if page.cursor and page.cursor in (row.cursor, row.mark):
        _give_up(ctx, row, "CURSOR_REPEATS")
    with transaction.atomic():
        ctx.fence()
        stored, conflicts, oldest = upsert(row.user_id, row.connection.broker, page.fills)
        pages = row.pages + 1
        known = [moment for moment in (row.oldest, oldest) if moment is not None]
        fields: dict[str, Any] = {
            "pages": pages, "cursor": page.cursor, "stored": row.stored + stored,
            "fetched": row.fetched + len(page.fills) + page.skipped,
            "skipped": row.skipped + page.skipped, "conflicts": row.conflicts + conflicts,
            "oldest": min(known, default=None), "waiting_since": None, "error": "",
            # Remembered at powers of two, so that a circle of any length is met again.
            "mark": page.cursor if pages & (pages - 1) == 0 else row.mark,
            "percent": max(row.percent, min(99, 100 * pages // (pages + 1))),
        }  # fmt: skip
        path = [ImportState.NORMALIZE, ImportState.UPSERT, ImportState.EMIT_PROGRESS]
        if page.cursor:
            path.append(ImportState.FETCH_PAGE)
        else:
            path += [ImportState.SCORE_ENQUEUE, ImportState.DONE]
            fields |= {"percent": 100, "ended_at": now()}
        states.imports.walk(row, path, by="worker", given=Q(pages=row.pages), **fields)
        events.import_progress(row)
        if not page.cursor:
            _finish(row)
    return not page.cursor


def _finish(row: ImportRun) -> None:
    # What was traded after it had begun, a run that took days has not seen.
    known = Greatest(Coalesce("imported_at", row.created_at), row.created_at)
    BrokerConnection.objects.filter(pk=row.connection_id).update(imported_at=known, error="")
    if row.oldest is not None:
        enqueue_score(row.user_id, row.oldest)
    events.audit(
        "import_done", "import", row.pk, row.user_id, stored=row.stored, fetched=row.fetched
    )


def upsert(user: int, broker: str, fills: list[Fill]) -> tuple[int, int, datetime | None]:
    """Store the fills that are new; return how many, the conflicts, and the oldest that changed.

    A known fill keeps its values; other ones are a conflict.
    """
    wanted: dict[str, Fill] = {}
    conflicts = 0
    for fill in fills:
        first = wanted.setdefault(fill.ext_id, fill)
        conflicts += first != fill
    of_user = Trade.objects.filter(user_id=user, broker=broker)
    known = {row.ext_id: row for row in of_user.filter(ext_id__in=list(wanted))}
    conflicts += sum(
        any(getattr(row, name) != getattr(wanted[ext_id], name) for name in _COLUMNS)
        for ext_id, row in known.items()
    )
    new = [fill for ext_id, fill in wanted.items() if ext_id not in known]
    Trade.objects.bulk_create(
        Trade(
            user_id=user, broker=broker, ext_id=fill.ext_id,
            **{name: getattr(fill, name) for name in _COLUMNS},
        )
        for fill in new
    )  # fmt: skip
    moments = [fill.ts for fill in new]
    moments += _net(user, broker, {fill.trade_id for fill in new})
    return len(new), conflicts, min(moments, default=None)


def _net(user: int, broker: str, trade_ids: set[str]) -> list[datetime]:
    """Decide which fills of these trades count; return the times of those that changed."""
    groups: dict[str, list[Trade]] = {}
    for row in Trade.objects.filter(user_id=user, broker=broker, trade_id__in=trade_ids):
        groups.setdefault(row.trade_id, []).append(row)
    changed: dict[bool, list[Trade]] = {True: [], False: []}
    for rows in groups.values():
        keys = counted(rows)
        for row in rows:
            if (row.pk in keys) != row.is_counted:
                changed[row.pk in keys].append(row)
    for is_counted, rows in changed.items():
        Trade.objects.filter(pk__in=[row.pk for row in rows]).update(is_counted=is_counted)
    gone = [row.pk for row in changed[False]]
    BiasTag.objects.filter(trade_id__in=gone, is_current=True).update(is_current=False)
    return [row.ts for rows in changed.values() for row in rows]

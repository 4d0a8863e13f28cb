"""``manage.py jobs watch``: how far a batch or a bulk operation is, until it is over."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.cli import acting
from jobs.cli.answers import say, say_json
from jobs.cli.people import person
from jobs.cli.verb import Options, Verb
from jobs.errors import UnknownTarget
from jobs.operate import batches, bulk

INTERVAL = 0.5
_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Look:
    """How far it is now."""

    state: str
    done: int
    total: int
    failed: int
    rate: float
    eta: float | None
    is_over: bool
    is_good: bool
    held: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", type=acting.uuid, metavar="ID", help="of a batch or bulk operation")
    parser.add_argument("--json", action="store_true", help="a line of JSON at the end")


def run(options: Options) -> int:
    try:
        bulk.find(options["id"], by=person())
    except UnknownTarget:
        batches.progress(options["id"])
        return _watch(lambda: _batch(options["id"]), options["json"])
    return watch_bulk(options["id"], options["json"])


def watch_bulk(bulk_id: UUID, is_json: bool) -> int:
    """Shows the operation until it is over; 0 where all went well."""
    return _watch(lambda: _bulk(bulk_id), is_json)


def _bulk(bulk_id: UUID) -> Look:
    found = bulk.progress(bulk_id, by=person())
    row = found.bulk
    good = row.state == "done" and not row.failed
    return Look(row.state, row.decided, row.total, row.failed, found.rate, found.eta,
                row.is_over, good, found.held)  # fmt: skip


def _batch(batch_id: UUID) -> Look:
    found = batches.progress(batch_id)
    is_over = found.state == "done"
    return Look(found.state, found.done, found.total, found.failed, found.rate, found.eta,
                is_over, is_over and not found.failed)  # fmt: skip


def _watch(look: Callable[[], Look], is_json: bool) -> int:
    is_live = sys.stdout.isatty() and not is_json
    last: Any = None
    while True:
        seen = look()
        if is_live:
            say(f"\r\x1b[K{line(seen)}")
        elif not is_json and (seen.state, seen.done, seen.held) != last:
            say(f"{line(seen)}\n")
        last = (seen.state, seen.done, seen.held)
        if seen.is_over:
            break
        time.sleep(INTERVAL)
    if is_live:
        say("\n")
    if is_json:
        say_json(seen)
    return 0 if seen.is_good else 1


def line(seen: Look) -> str:
    """One line with a bar."""
    share = seen.done / seen.total if seen.total else float(seen.is_over)
    bar = "█" * int(share * _WIDTH)
    text = f"{bar:░<{_WIDTH}} {share:4.0%}  {seen.done}/{seen.total}  {seen.state}"
    if seen.failed:
        text += f"  {seen.failed} failed"
    if seen.rate and not seen.is_over:
        text += f"  {seen.rate:.1f}/s"
    if seen.eta is not None:
        text += f"  {seen.eta:.0f} s left"
    return f"{text}  ({seen.held})" if seen.held else text


VERB = Verb("watch", "follow a batch or a bulk operation to its end", add_arguments, run)

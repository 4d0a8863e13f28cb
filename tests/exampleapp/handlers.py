"""What the app does."""

from __future__ import annotations

import logging
import time

import jobs
from jobs import metrics

log = logging.getLogger("exampleapp.imports")

pages = metrics.counter("exampleapp_pages_total", "Pages that were imported.", ["source"])
page_seconds = metrics.histogram(
    "exampleapp_page_seconds", "How long a page took.", buckets=(0.1, 1, 10)
)
contexts = metrics.gauge("exampleapp_contexts", "Open contexts of browsers.")


class Import(jobs.Payload, kind="exampleapp.import"):
    """Import pages for somebody."""

    user: str
    pages: int
    hold: bool = False


@jobs.handler(Import, max_attempts=3)
def run_import(ctx: jobs.Context, payload: Import) -> None:
    contexts.set(2)
    for number in range(payload.pages):
        with ctx.span("import.page", page=number), page_seconds.time():
            pages.inc(source="broker")
        ctx.emit("import.progress", {"done": number + 1}, tenant=payload.user, at_once=True)
    while payload.hold:
        ctx.checkpoint()
        time.sleep(0.05)
    log.info("imported %d pages", payload.pages)
    ctx.emit("coach.reflect", {"pages": payload.pages}, tenant=payload.user)

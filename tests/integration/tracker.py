"""An error tracker that hooks ``logging`` the way sentry-sdk does: whatever reaches a logger at
level ERROR is an event, whether or not a handler takes it. Writes events to FLEET_TRACKER.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from pathlib import Path
from typing import Any

from django.apps import AppConfig


class Tracker(AppConfig):
    name = "tests.integration.tracker"
    label = "tracker"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        handled = logging.Logger.callHandlers

        def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
            try:
                handled(logger, record)
            finally:
                if record.levelno >= logging.ERROR:
                    note(event(record))

        setattr(logging.Logger, "callHandlers", handle)  # noqa: B010 - as trackers do


def event(record: logging.LogRecord) -> dict[str, Any]:
    """What a tracker sends of a record: line, fields, and the exception with its frames."""
    found: dict[str, Any] = {
        "logger": record.name, "message": str(record.msg), "line": record.getMessage(),
        "extra": {name: str(getattr(record, name, "")) for name in ("job_id", "kind", "tenant")},
    }  # fmt: skip
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        found["exception"] = {
            "type": type(error).__name__, "module": type(error).__module__, "value": str(error),
            "frames": [
                {"function": frame.f_code.co_name, "line": line,
                 "module": frame.f_globals.get("__name__"), "vars": repr(frame.f_locals)}
                for frame, line in traceback.walk_tb(record.exc_info[2])
            ],
        }  # fmt: skip
    return found


def note(one: dict[str, Any]) -> None:
    with Path(os.environ["FLEET_TRACKER"]).open("a") as file:
        file.write(json.dumps(one) + "\n")

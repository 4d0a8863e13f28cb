"""Signals that a project may listen to."""

from __future__ import annotations

from django.dispatch import Signal

operator_action = Signal()
"""Somebody has acted, or was kept from it; sent after the commit with ``record``, whose fields are
those of the audit. What a receiver raises is logged and stops nobody."""

job_failed = Signal()
"""An attempt has failed, timed out, crashed or was lost; sent after the commit by the process that
has noted it, from a thread of its own, with ``job_id``, ``kind``, ``queue``, ``tenant``,
``attempt``, ``final`` (whether the job has failed for good), ``reason`` (the code of a final
failure), ``error`` (class and message) and ``exc_info``, which is None where nothing was raised.
Messages are redacted, and the exception is a copy without variables. What a receiver raises is
logged and stops nobody."""

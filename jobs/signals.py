"""Signals that a project may listen to."""

from __future__ import annotations

from django.dispatch import Signal

operator_action = Signal()
"""Somebody has acted, or was kept from it; sent after the commit with ``record``, whose fields are
those of the audit. What a receiver raises is logged and stops nobody."""

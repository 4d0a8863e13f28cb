"""Django signals of the app."""

from django.dispatch import Signal

batch_completed = Signal()
"""Sent by a worker with ``batch_id`` and ``revision``, at least once for each revision."""

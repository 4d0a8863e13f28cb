"""Columns of every table whose state moves only along legal edges, with its history on the row."""

from django.db import models
from django.db.models import Value
from django.utils.translation import gettext_lazy as _


class Guarded(models.Model):
    """A row whose ``state`` a trigger guards and whose moves the same trigger records.

    ``history`` holds ``[epoch seconds, from, to, by, why]`` for each move: the first 8 and the
    last 56 of them. ``moved_by`` and ``move_reason`` are given with the UPDATE that moves the
    state; the trigger turns them into history and clears them.
    """

    history = models.JSONField(_("history"), default=list, db_default=Value([], models.JSONField()))
    history_dropped = models.IntegerField(_("history entries dropped"), default=0, db_default=0)
    moved_by = models.TextField(null=True, editable=False)  # noqa: DJ001 - NULL is "not given"
    move_reason = models.TextField(null=True, editable=False)  # noqa: DJ001

    class Meta:
        abstract = True

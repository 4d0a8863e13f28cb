"""How states look: a word, an icon and a colour each; never the colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from jobs.operate.phrases import REASONS

__all__ = ["LOOKS", "REASONS", "Look", "look", "shown_state"]


@dataclass(frozen=True, slots=True)
class Look:
    """Label, icon and tone."""

    label: Any
    icon: str
    tone: str


LOOKS: dict[str, Look] = {
    "blocked": Look(_("Blocked"), "lock", "grey"),
    "scheduled": Look(_("Scheduled"), "clock", "violet"),
    "pending": Look(_("Waiting"), "lines", "teal"),
    "waiting": Look(_("Waiting"), "lines", "teal"),
    "queued": Look(_("Queued"), "lines", "teal"),
    "running": Look(_("Running"), "turn", "blue"),
    "cancelling": Look(_("Cancelling"), "turn", "amber"),
    "retrying": Look(_("Retrying"), "again", "amber"),
    "succeeded": Look(_("Succeeded"), "tick", "green"),
    "failed": Look(_("Failed"), "cross", "red"),
    "cancelled": Look(_("Cancelled"), "stop", "grey"),
    "expired": Look(_("Expired"), "clock", "grey"),
    # attempts
    "timeout": Look(_("Timed out"), "clock", "red"),
    "crashed": Look(_("Crashed"), "cross", "red"),
    "lost": Look(_("Lost"), "alert", "amber"),
    # dead letters
    "open": Look(_("Open"), "alert", "red"),
    "retried": Look(_("Retried"), "again", "green"),
    "replayed": Look(_("Replayed"), "again", "green"),
    "discarded": Look(_("Discarded"), "stop", "grey"),
    "ignored": Look(_("Ignored"), "pause", "grey"),
    "resolved": Look(_("Resolved"), "tick", "green"),
    # events
    "parked": Look(_("Parked"), "pause", "amber"),
    "published": Look(_("Published"), "tick", "green"),
    # batches, effects and breakers
    "sealed": Look(_("In progress"), "turn", "blue"),
    "filling": Look(_("Being filled"), "lines", "teal"),
    "done": Look(_("Done"), "tick", "green"),
    "intent": Look(_("Intended"), "clock", "blue"),
    "in_doubt": Look(_("In doubt"), "alert", "amber"),
    "aborted": Look(_("Aborted"), "stop", "grey"),
    "aborting": Look(_("Aborting"), "stop", "amber"),
    "closed": Look(_("Closed, calls pass"), "tick", "green"),
    "half_open": Look(_("Half open"), "again", "amber"),
    # queues, schedules and workers
    "paused": Look(_("Paused"), "pause", "amber"),
    "blackout": Look(_("Blackout"), "pause", "violet"),
    "active": Look(_("Active"), "tick", "green"),
    "disabled": Look(_("Disabled"), "stop", "grey"),
    "busy": Look(_("Busy"), "turn", "blue"),
    "idle": Look(_("Idle"), "tick", "green"),
    "draining": Look(_("Draining"), "pause", "amber"),
    "revoked": Look(_("Revoked"), "stop", "grey"),
    "stopped": Look(_("Stopped"), "stop", "grey"),
    "ended": Look(_("Ended"), "stop", "grey"),
    "late": Look(_("Late"), "clock", "amber"),
    "silent": Look(_("Silent"), "alert", "red"),
    "error": Look(_("Error"), "cross", "red"),
    # deliveries of webhooks
    "delivered": Look(_("Delivered"), "tick", "green"),
    "held": Look(_("Held back"), "pause", "amber"),
    "dropped": Look(_("Dropped"), "stop", "grey"),
    # saved views
    "shared": Look(_("Shared"), "tick", "blue"),
    "own": Look(_("Own"), "lock", "grey"),
    # audit
    "ok": Look(_("Done"), "tick", "green"),
    "denied": Look(_("Denied"), "lock", "red"),
    "refused": Look(_("Refused"), "stop", "amber"),
}


def look(state: str) -> Look:
    """How the state looks; an unknown one by its own name."""
    return LOOKS.get(state) or Look(state, "lines", "grey")


def shown_state(job: Any) -> str:
    """The state as people speak of it: waiting jobs differ by what they wait for."""
    state = str(job.state)
    if state == "running" and job.cancel_requested_at is not None:
        return "cancelling"
    if state == "pending" and job.wait == 1:
        return "retrying" if job.failures else "scheduled"
    return state

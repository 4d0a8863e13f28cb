"""Every verb of people, in one list: what the admin, the API and the command line have to offer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that people do to one target of a kind."""

    name: str
    """As the audit calls it."""
    target: str
    permission: str
    needs_reason: bool
    function: str
    """Module and name, below ``jobs.operate``."""

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        module, _, name = self.function.rpartition(".")
        found: Callable[..., Any] = getattr(import_module(f"jobs.operate.{module}"), name)
        return found


VERBS = (
    Verb("job.retry", "job", "retry_job", False, "retry.retry"),
    Verb("job.run_now", "job", "retry_job", False, "edit.run_now"),
    Verb("job.replay", "job", "replay_job", False, "replay.replay"),
    Verb("job.cancel", "job", "cancel_job", False, "cancel.cancel"),
    Verb("job.edit", "job", "edit_job", False, "edit.edit"),
    Verb("job.reveal_payload", "job", "reveal_payload", True, "shown.reveal_payload"),
    Verb("batch.cancel_rest", "batch", "cancel_job", False, "batches.cancel_rest"),
    Verb("batch.retry_failed", "batch", "retry_job", False, "batches.retry_failed"),
    Verb("batch.note", "batch", "edit_job", False, "batches.note"),
    Verb("deadletter.retry", "deadletter", "resolve_deadletter", False, "deadletters.retry_letter"),
    Verb(
        "deadletter.replay", "deadletter", "resolve_deadletter", False, "deadletters.replay_letter"
    ),
    Verb(
        "deadletter.discard", "deadletter", "resolve_deadletter", True, "deadletters.discard_letter"
    ),
    Verb("effect.resolve", "effect", "resolve_doubt", True, "doubts.resolve"),
    Verb("event.park", "event", "publish_outbox", True, "outbox.park"),
    Verb("event.publish", "event", "publish_outbox", True, "outbox.publish"),
    Verb("event.discard", "event", "publish_outbox", True, "outbox.discard"),
    Verb("scope.pause", "scope", "pause_queue", True, "pauses.pause"),
    Verb("scope.resume", "scope", "pause_queue", True, "pauses.resume"),
    Verb("limit.set", "scope", "edit_queue", True, "queues.set_limit"),
    Verb("limit.end_override", "scope", "edit_queue", True, "queues.end_override"),
    Verb("limit.remove", "scope", "edit_queue", True, "queues.remove_limit"),
    Verb("breaker.open", "breaker", "edit_queue", True, "breakers.force_open"),
    Verb("breaker.close", "breaker", "edit_queue", False, "breakers.reset"),
    Verb("worker.drain", "worker", "manage_worker", False, "workers.drain"),
    Verb("worker.stop", "worker", "manage_worker", True, "workers.stop"),
    Verb("schedule.create", "schedule", "manage_schedule", True, "schedules.create"),
    Verb("schedule.edit", "schedule", "manage_schedule", True, "schedules.edit"),
    Verb("schedule.remove", "schedule", "manage_schedule", True, "schedules.remove"),
    Verb("schedule.pause", "schedule", "manage_schedule", True, "schedules.pause"),
    Verb("schedule.resume", "schedule", "manage_schedule", True, "schedules.resume"),
    Verb("schedule.run_now", "schedule", "manage_schedule", True, "schedules.run_now"),
    Verb("schedule.backfill", "schedule", "manage_schedule", True, "schedules.backfill"),
    Verb("blackout.create", "blackout", "manage_blackout", True, "blackouts.create"),
    Verb("blackout.update", "blackout", "manage_blackout", True, "blackouts.update"),
    Verb("deploy.mark", "deploy", "manage_worker", False, "charts.mark_deploy"),
    Verb("blackout.delete", "blackout", "manage_blackout", True, "blackouts.delete"),
    Verb("bulk.start", "bulk", "run_bulk", True, "bulk.start"),
    Verb("bulk.abort", "bulk", "run_bulk", True, "bulk.abort"),
    Verb("bulk.proceed", "bulk", "run_bulk", True, "bulk.proceed"),
    Verb("cause.ignore", "cause", "resolve_deadletter", True, "causes.ignore"),
    Verb("cause.resolve", "cause", "resolve_deadletter", True, "causes.resolve"),
    Verb("cause.reopen", "cause", "resolve_deadletter", True, "causes.reopen"),
    Verb("cause.note", "cause", "resolve_deadletter", False, "causes.note"),
    Verb("cause.retry_all", "cause", "resolve_deadletter", True, "causes.retry_all"),
    Verb("cause.replay_all", "cause", "resolve_deadletter", True, "causes.replay_all"),
    Verb("cause.discard_all", "cause", "resolve_deadletter", True, "causes.discard_all"),
    Verb("webhook.create", "webhook", "manage_webhook", True, "webhooks.create"),
    Verb("webhook.edit", "webhook", "manage_webhook", True, "webhooks.edit"),
    Verb("webhook.pause", "webhook", "manage_webhook", True, "webhooks.pause"),
    Verb("webhook.resume", "webhook", "manage_webhook", True, "webhooks.resume"),
    Verb("webhook.rotate_secret", "webhook", "manage_webhook", True, "webhooks.rotate_secret"),
    Verb("webhook.delete", "webhook", "manage_webhook", True, "webhooks.delete"),
    Verb("webhook.ping", "webhook", "manage_webhook", True, "webhooks.ping"),
    Verb("view.save", "view", "save_view", False, "views.save"),
    Verb("view.edit", "view", "save_view", False, "views.edit"),
    Verb("view.remove", "view", "save_view", False, "views.remove"),
    Verb("webhook.redeliver", "delivery", "manage_webhook", True, "webhooks.redeliver"),
)
"""API keys are added where those live."""

BY_NAME = {verb.name: verb for verb in VERBS}

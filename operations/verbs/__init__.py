"""Verbs on operations, agents and sync runs, for the admin, the API and the command line."""

from operations.verbs.agents import (
    activate,
    change_login,
    choose_client,
    create_agent,
    link_user,
    pause,
    resume,
    stop,
    sync_now,
    test_login,
)
from operations.verbs.declared import (
    ACT_FOR_AGENTS,
    CHANGE_AGENT,
    DECIDE_DELETIONS,
    PERMISSIONS,
    VIEW_AGENT,
    VIEW_MIRROR,
    VIEW_OPERATION,
    VIEW_RUN,
)
from operations.verbs.operations import cancel, resolve, retry, stop_type
from operations.verbs.runs import allow, reject

__all__ = [
    "ACT_FOR_AGENTS", "CHANGE_AGENT", "DECIDE_DELETIONS", "PERMISSIONS", "VIEW_AGENT",
    "VIEW_MIRROR", "VIEW_OPERATION", "VIEW_RUN", "activate", "allow", "cancel", "change_login",
    "choose_client", "create_agent", "link_user", "pause", "reject", "resolve", "resume", "retry",
    "stop", "stop_type", "sync_now", "test_login",
]  # fmt: skip

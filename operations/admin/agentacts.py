"""What is done with agents."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import flow
from jobs.admin import Act, Reason, Words, principal
from operations import verbs
from operations.models import Agent, ClientKind, Login
from operations.table import SERVICE_ACCOUNT, SYNCS


class LoginForm(Reason):
    """Form for a login of the ERP; the password is not shown again."""

    words = {
        "erp_login": Words(gettext_lazy("Login of the ERP")),
        "password": Words(
            gettext_lazy("Password"),
            widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        ),
    }


CLIENT = Words(
    gettext_lazy("Client"),
    gettext_lazy("A browser needs Chromium, and the extra operations-browser, on the workers."),
    choices=lambda form: dict(ClientKind.choices),
)


class ClientForm(Reason):
    """Form to choose how the ERP is reached."""

    words = {"client": CLIENT}


class CreateForm(LoginForm):
    """Form for a new agent."""

    words = {
        "key": Words(
            gettext_lazy("Key"),
            gettext_lazy("Small letters, digits and hyphens. It never changes."),
        ),
        **LoginForm.words,
        "client": CLIENT,
    }


def _syncs(form: Any) -> dict[str, str]:
    is_shared = form.row is not None and form.row.pk == SERVICE_ACCOUNT
    return {sync.type: sync.type for sync in SYNCS if sync.is_shared == is_shared}


class SyncForm(Reason):
    """Form to choose a sync."""

    words = {"type": Words(gettext_lazy("Sync"), choices=_syncs)}


def _username(form: Any) -> str | None:
    return form.row.user.get_username() if form.row is not None and form.row.user else None


class UserForm(Reason):
    """Form to choose who acts for an agent."""

    words = {
        "username": Words(
            gettext_lazy("User"),
            gettext_lazy("Who acts for the agent; nobody if it is empty."),
            initial=_username, empty="",
        ),
    }  # fmt: skip


def _create(request: HttpRequest, row: Any, given: dict[str, Any]) -> tuple[str, str]:
    made = verbs.create_agent(by=principal(request), **given)
    return _("The agent is created."), reverse("admin:operations_agent_change", args=[made.pk])


def _stop(request: HttpRequest, row: Agent, given: dict[str, Any]) -> str:
    count = verbs.stop(row.pk, by=principal(request), **given)
    return _("Operations that were cancelled or asked to stop: %(count)s") % {"count": count}


def _activating(active: bool) -> Any:
    def activate(request: HttpRequest, row: Agent, given: dict[str, Any]) -> str:
        verbs.activate(row.pk, active, by=principal(request), **given)
        return _("It is active.") if active else _("It is inactive.")

    return activate


def _pause_of(row: Agent) -> str | None:
    """Return the reason of the agent's pause; the list has looked it up for all of its rows."""
    found: dict[str, str] | None = getattr(row, "_pauses", None)
    if found is None:
        found = {pause.scope: pause.reason for pause in flow.paused()}
    return found.get(f"key:agent:{row.pk}")


def _no_pause(request: HttpRequest, row: Agent) -> str:
    return _("It is paused.") if _pause_of(row) is not None else ""


def _no_resume(request: HttpRequest, row: Agent) -> str:
    if row.login == Login.REFUSED:
        return _("The login is refused: change or test it.")
    return _("It is not paused.") if _pause_of(row) is None else ""


def _no_activity(active: bool, request: HttpRequest, row: Agent) -> str:
    if row.is_active is not active:
        return ""
    return _("It is active.") if active else _("It is inactive.")


ACTS = (
    Act("sync-now", gettext_lazy("Sync now…"), form=SyncForm, tone="primary",
        verb="agent.sync_now", consequences=lambda r, a: [
            _("It starts as soon as the agent has nothing more urgent."),
            _("A pause after failures ends."),
        ]),
    Act("test-login", gettext_lazy("Test the login…"), verb="agent.test_login",
        consequences=lambda r, a: [
            _("The password is tried once, as the next job of the agent."),
            _("If the ERP accepts it, what waits continues by itself."),
        ]),
    Act("change-login", gettext_lazy("Change the login…"), form=LoginForm,
        verb="agent.change_login", consequences=lambda r, a: [
            _("What waits for a login that the ERP accepts continues by itself."),
        ]),
    Act("choose-client", gettext_lazy("Choose the client…"), form=ClientForm,
        verb="agent.choose_client", done=gettext_lazy("The client is stored."),
        consequences=lambda r, a: [
            _("What runs is finished as it began; the next attempt uses the new client."),
        ]),
    Act("link-user", gettext_lazy("Choose the user…"), form=UserForm, verb="agent.link_user",
        done=gettext_lazy("The user is stored."), consequences=lambda r, a: [
            _("The user sees and acts for this agent, and no other."),
        ]),
    Act("pause", gettext_lazy("Pause…"), forbidden=_no_pause, verb="agent.pause",
        consequences=lambda r, a: [
            _("No further operation of the agent starts; what runs is finished."),
        ]),
    Act("resume", gettext_lazy("Resume…"), forbidden=_no_resume, tone="primary",
        verb="agent.resume", consequences=lambda r, a: [_("What waits continues by itself.")]),
    Act("stop", gettext_lazy("Stop all…"), _stop, tone="danger", verb="agent.stop",
        consequences=lambda r, a: [
            _("What waits is cancelled at once, what runs at its next check."),
            _("A write whose call has begun is not cancelled."),
        ]),
    Act("deactivate", gettext_lazy("Deactivate…"), _activating(False),
        partial(_no_activity, False), tone="danger", verb="agent.activate",
        consequences=lambda r, a: [_("No new operation of the agent is accepted.")]),
    Act("activate", gettext_lazy("Activate…"), _activating(True), partial(_no_activity, True),
        tone="primary", verb="agent.activate",
        consequences=lambda r, a: [_("Operations of the agent are accepted again.")]),
)  # fmt: skip
NEW = Act(
    "create", gettext_lazy("New agent…"), _create, form=CreateForm, tone="primary",
    verb="agent.create",
)  # fmt: skip

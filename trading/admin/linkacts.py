"""What is done with a linked account."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import Act, Reason, Words, principal
from trading import links, logins, venues
from trading.config import settings
from trading.errors import Refused
from trading.models import Broker, BrokerConnection
from trading.permissions import USE, VIEW

Status = BrokerConnection.Status


class OwnForm(Reason):
    """Form for what people do with their own data: they need not say why."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "reason" in self.fields:
            self.fields["reason"].required = False


class ImportForm(OwnForm):
    """Form to import fills."""

    words = {
        "since": Words(gettext_lazy("Since"), gettext_lazy("Empty means the last 30 days.")),
    }


class DailyForm(OwnForm):
    """Form to turn the daily import on or off."""

    words = {
        "daily": Words(
            gettext_lazy("Import new fills every day"),
            initial=lambda form: form.row.is_daily if form.row is not None else True,
        ),
    }


class Unshown(forms.Textarea):
    """A text that a form that is shown again does not repeat."""

    def format_value(self, value: Any) -> str:
        return ""


class LinkForm(Reason):
    """Form to link one's own account."""

    key_name = forms.CharField(label=gettext_lazy("Key name"), max_length=300)
    secret = forms.CharField(
        label=gettext_lazy("Private key, or secret"), max_length=4000,
        widget=Unshown(attrs={"autocomplete": "off", "rows": 6, "spellcheck": "false"}),
    )  # fmt: skip
    may_trade = forms.BooleanField(
        label=gettext_lazy("Link the key even if it may trade"), required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["reason"]


class BinanceForm(LinkForm):
    """Form to link one's own account at Binance."""

    symbols = forms.CharField(
        label=gettext_lazy("Markets"), max_length=5000, required=False,
        help_text=gettext_lazy("Such as BTC-USDT. Empty means those of what the account holds."),
    )  # fmt: skip
    field_order = ("key_name", "secret", "symbols", "may_trade")


class LoginForm(Reason):
    """Form to begin a login at Coinbase."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["reason"]


class SymbolsForm(OwnForm):
    """Form to choose the markets of an account."""

    words = {
        "symbols": Words(
            gettext_lazy("Markets"), gettext_lazy("Such as BTC-USDT, separated by commas."),
            initial=lambda form: ", ".join(form.row.symbols) if form.row is not None else "",
        ),
    }  # fmt: skip


def _named(given: str) -> list[str] | None:
    return given.replace(",", " ").split() or None


def _link(broker: Broker, request: HttpRequest, row: Any, given: dict[str, Any]) -> tuple[str, str]:
    by = principal(request)
    try:
        checked = links.check_key(
            broker, given["key_name"], given["secret"], may_trade=given["may_trade"],
            symbols=_named(given.get("symbols", "")),
        )  # fmt: skip
        made = links.store(int(by.user_id), checked, by=by)
    except Refused as error:  # its field has the name that the API gives it
        raise Refused(error.code, error.message) from None
    page = reverse("admin:trading_brokerconnection_change", args=[made.pk])
    return _("The account is linked."), page


def _login(request: HttpRequest, row: Any, given: dict[str, Any]) -> HttpResponse:
    """Render the link to Coinbase: a form that redirects to another host is blocked by browsers."""
    url = logins.begin(request, int(principal(request).user_id))
    shown = {"title": "Coinbase", "url": url}
    return TemplateResponse(request, "trading/admin/login.html", shown)


def _to_import(request: HttpRequest, row: BrokerConnection, job: Any) -> Any:
    said = _("The import has started.")
    if not principal(request).may(VIEW["importrun"]):
        return said
    return said, reverse("admin:trading_importrun_change", args=[job])


def _rights(request: HttpRequest, row: BrokerConnection, found: str) -> str:
    if found == "may read and trade":
        return _("The venue takes the key. It may read and trade.")
    return _("The venue takes the key. It may read only.")


def _unless(wanted: tuple[str, ...], request: HttpRequest, row: BrokerConnection) -> str:
    """Say why the state of the link does not allow it; nothing if it does."""
    if row.status in wanted:
        return ""
    return {
        Status.ACTIVE: _("It is active."), Status.PAUSED: _("It is paused."),
        Status.REVOKED: _("It is revoked."),
    }[Status(row.status)]  # fmt: skip


_active, _paused = partial(_unless, (Status.ACTIVE,)), partial(_unless, (Status.PAUSED,))
_open = partial(_unless, (Status.ACTIVE, Status.PAUSED))


def _has_markets(request: HttpRequest, row: BrokerConnection) -> str:
    return _open(request, row) if row.broker == Broker.BINANCE else _("It reads all markets.")


def _no_login(request: HttpRequest, row: Any) -> str:
    return "" if settings().has_login else _("Logging in at Coinbase is not set up here.")


def _no_binance(request: HttpRequest, row: Any) -> str:
    return "" if venues.is_on(Broker.BINANCE) else _("Binance is not switched on here.")


ACTS = (
    Act("import", gettext_lazy("Import…"), forbidden=_active, form=ImportForm, tone="primary",
        verb="link.import", submit=gettext_lazy("Import"), show=_to_import,
        consequences=lambda r, row: [
            _("Fills that are new are stored, and labelled right after."),
            _("An import from the same day on that has not ended is not started twice."),
        ]),
    Act("test", gettext_lazy("Test…"), forbidden=_active, form=OwnForm, verb="link.test",
        submit=gettext_lazy("Test"), show=_rights, consequences=lambda r, row: [
            _("The venue is asked whether it takes the key, and what the key may do."),
        ]),
    Act("set-daily", gettext_lazy("Daily import…"), forbidden=_open, form=DailyForm,
        verb="link.set_daily", submit=gettext_lazy("Save")),
    Act("set-symbols", gettext_lazy("Markets…"), forbidden=_has_markets, form=SymbolsForm,
        verb="link.set_symbols", submit=gettext_lazy("Save"), consequences=lambda r, row: [
            _("The venue is asked for the fills of each market; a market that is missing here "
              "is not read."),
        ]),
    Act("pause", gettext_lazy("Pause…"), forbidden=_active, form=OwnForm, verb="link.pause",
        submit=gettext_lazy("Pause"), consequences=lambda r, row: [
            _("Nothing is imported; a running import ends before its next page."),
        ]),
    Act("resume", gettext_lazy("Resume…"), forbidden=_paused, form=OwnForm, verb="link.resume",
        tone="primary", submit=gettext_lazy("Resume"), consequences=lambda r, row: [
            _("The account can be imported again, daily if that is on."),
        ]),
    Act("revoke", gettext_lazy("Revoke…"), forbidden=_open, form=OwnForm, verb="link.revoke",
        tone="danger", submit=gettext_lazy("Revoke"), consequences=lambda r, row: [
            _("The key is erased for ever; trades, labels and digests stay."),
            _("To import again, the account has to be linked with a key."),
        ]),
)  # fmt: skip
NEW = (
    Act(
        "link", gettext_lazy("Link Coinbase…"), partial(_link, Broker.COINBASE), needs=USE,
        form=LinkForm, tone="primary", consequences=lambda r, row: [
            _("The venue is asked what the key may do; a key that may withdraw is refused."),
            _("The key is kept encrypted and is never shown.")],
    ),
    Act(
        "login", gettext_lazy("Log in at Coinbase…"), _login, needs=USE, form=LoginForm,
        forbidden=_no_login, consequences=lambda r, row: [
            _("Coinbase asks you whether this site may read your fills; it asks for no more.")],
    ),
    Act(
        "link-binance", gettext_lazy("Link Binance…"), partial(_link, Broker.BINANCE), needs=USE,
        form=BinanceForm, forbidden=_no_binance, consequences=lambda r, row: [
            _("The venue is asked what the key may do; a key that may withdraw is refused."),
            _("The key is kept encrypted and is never shown.")],
    ),
)  # fmt: skip

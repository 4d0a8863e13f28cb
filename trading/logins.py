"""Linking a Coinbase account by logging in there: to Coinbase, and back with a code.

What is needed when the user comes back is in the session, so that the code of somebody else, or of
another browser, is worth nothing here.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from jobs.acts import Principal
from jobs.admin import principal
from trading import links
from trading.clients import coinbase_login
from trading.config import settings
from trading.errors import Refused
from trading.models import Broker, BrokerConnection
from trading.permissions import VIEW, as_oneself

LIFETIME = 600
"""Seconds to log in and consent."""
_KEPT = "trading_login"


def begin(request: HttpRequest, user: int, *, is_daily: bool = True) -> str:
    """Return the address at Coinbase to go to; raise Refused."""
    session: Any = getattr(request, "session", None)
    if not settings().has_login:
        raise Refused("NO_LOGIN")
    if session is None or not request.user.is_authenticated or request.user.pk != user:
        raise Refused("NO_LOGIN", "needs the session of a browser that is logged in")
    open_links = BrokerConnection.objects.filter(
        user_id=user, broker=Broker.COINBASE, status__in=links.OPEN
    )
    if open_links.exists():
        raise Refused("CONFLICT", "an account of this venue is linked; revoke it first")
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    session[_KEPT] = {
        "state": state, "verifier": verifier, "user": user, "daily": is_daily,
        "until": time.time() + LIFETIME,
    }  # fmt: skip
    return coinbase_login.address(state, verifier, _back(request))


def _back(request: HttpRequest) -> str:
    own = request.build_absolute_uri(reverse("trading-coinbase-callback"))
    return settings().COINBASE_REDIRECT_URI or own


@never_cache
@require_GET
@login_required
def callback(request: HttpRequest) -> HttpResponse:
    """Link the account of the user who comes back from Coinbase."""
    who = principal(request)
    try:
        made = _link(request, as_oneself(who, int(who.user_id)))
    except Refused as error:
        return _page(request, error.message, 400)
    if request.user.is_staff and who.may(VIEW["brokerconnection"]):
        return redirect("admin:trading_brokerconnection_change", made.pk)
    return _page(request, _("The account is linked."), 200)


def _link(request: HttpRequest, who: Principal) -> BrokerConnection:
    kept = request.session.get(_KEPT) or {}
    state, code = request.GET.get("state", ""), request.GET.get("code", "")
    if not kept or not constant_time_compare(state, kept["state"]):
        raise Refused("LOGIN_FAILED")
    del request.session[_KEPT]  # a state is good once
    is_over = time.time() > kept["until"] or str(kept["user"]) != who.user_id
    if is_over or not code or len(code) > 2000 or "error" in request.GET:
        raise Refused("LOGIN_FAILED")
    tokens = links.asked(lambda: coinbase_login.exchanged(code, kept["verifier"], _back(request)))
    checked = links.check_login(tokens)
    return links.store(int(who.user_id), checked, by=who, is_daily=bool(kept["daily"]))


def _page(request: HttpRequest, words: str, status: int) -> HttpResponse:
    shown = {"title": "Coinbase", "words": words, "site_header": "Jobdesk"}
    return render(request, "trading/linked.html", shown, status=status)

"""What is wrong with the accounts of brands, for the first page of the admin."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobs.problems import Problem, count, problem
from jobs.verbs import Principal
from publisher import verbs
from publisher.models import Account

CODE = "publisher.needs_reconnect"
MOST = 100
"""So far accounts are counted."""


def _shown(one: Problem) -> str:
    return gettext("Accounts to reconnect: %(n)s. Their posts wait.") % {"n": one.count}


@problem(
    CODE, text=_shown, page="publisher_account?state=needs_reconnect", link=_("See the accounts")
)
def lost_accounts(who: Principal) -> Iterator[Problem]:
    """Yield one problem for all accounts that wait for somebody to reconnect them."""
    if not who.may(verbs.VIEW_ACCOUNT):
        return
    rows = Account.objects.filter(status=Account.Status.NEEDS_RECONNECT)
    if who.scope.tenants is not None:
        rows = rows.filter(tenant__in=who.scope.tenants)
    found = count(rows[: MOST + 1].count(), MOST)
    if found.value:
        yield Problem(CODE, f"Accounts to reconnect: {found}", count=found)

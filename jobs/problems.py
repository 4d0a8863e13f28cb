"""Problems of an app on the first page of the admin, next to those of the platform.

::

    @problems.problem("shop.stock", text=_shown, page="shop_product?tab=low", link=_("See them"))
    def low_stock(who):
        low = Product.objects.filter(stock__lt=10)[:101].count()
        if low and who.may("shop.view_product"):
            yield Problem("shop.stock", f"{low} products are low", count=count(low, 100))
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from django.db import transaction

from jobs.engine import sql
from jobs.errors import ConfigError
from jobs.operate.reads import Count, count
from jobs.operate.troubles import Problem
from jobs.principals import Principal

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["Count", "Problem", "count", "declared", "found", "problem"]

log = logging.getLogger("jobs.problems")
Read = Callable[[Principal], Iterable[Problem]]
R = TypeVar("R", bound=Read)


@dataclass(frozen=True, slots=True)
class Declared:
    """A problem that an app looks for, and how the admin shows it."""

    code: str
    read: Read
    text: Callable[[Problem], str]
    page: str
    link: StrOrPromise


_declared: dict[str, Declared] = {}


def problem(
    code: str, *, text: Callable[[Problem], str], page: str = "", link: StrOrPromise = ""
) -> Callable[[R], R]:
    """Have the decorated function asked for problems of this code whenever the page is built.

    It is given the principal who looks, yields what that principal may see, and has to be as quick
    as one query along an index. ``text`` returns the words of the admin in the reader's language;
    ``page`` is the list that helps, as ``app_model`` with a query, and ``link`` the words of the
    link to it. A function that fails is logged and left out.
    """
    if "." not in code:
        raise ConfigError(f"problem {code!r}: begin the code with the app, like 'shop.stock'")

    def declare(read: R) -> R:
        _declared[code] = Declared(code, read, text, page, link)
        return read

    return declare


def declared(code: str) -> Declared | None:
    """Return what was declared for a code."""
    return _declared.get(code)


def found(who: Principal) -> Iterator[Problem]:
    """Yield the problems of all apps that the principal may see."""
    for one in _declared.values():
        try:
            with transaction.atomic(using=sql.alias()):
                seen = list(one.read(who))
        except Exception:
            log.exception("problem %s could not be looked for", one.code)
        else:
            yield from seen

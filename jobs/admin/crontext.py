"""Cron rules in words, as far as they are of the usual sort."""

from __future__ import annotations

import re

from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _

_EVERY = re.compile(r"\*/([1-9][0-9]?)")
_DAYS = re.compile(r"[0-7](-[0-7])?(,[0-7](-[0-7])?)*")


def in_words(rule: str) -> str:
    """When it comes, or nothing where the rule itself says it better."""
    fields = rule.split()
    if len(fields) != 5 or fields[3] != "*":
        return ""
    minute, hour, day, _month, weekday = fields
    if (day, weekday) == ("*", "*"):
        return _within_a_day(minute, hour)
    if not minute.isdigit() or not hour.isdigit():
        return ""
    at = {"time": f"{int(hour):02}:{int(minute):02}"}
    if weekday == "*" and day.isdigit():
        return _("on day %(day)d of the month at %(time)s") % {"day": int(day), **at}
    if day == "*" and _DAYS.fullmatch(weekday):
        return _("%(days)s at %(time)s") % {"days": _days(weekday), **at}
    return ""


def _within_a_day(minute: str, hour: str) -> str:
    if minute.isdigit() and hour.isdigit():
        return _("every day at %(time)s") % {"time": f"{int(hour):02}:{int(minute):02}"}
    if hour == "*" and minute == "*":
        return _("every minute")
    if hour == "*" and minute.isdigit():
        return _("every hour at minute %(minute)d") % {"minute": int(minute)}
    if hour == "*" and (found := _EVERY.fullmatch(minute)) and 60 % int(found[1]) == 0:
        return _every(int(found[1]), _("every minute"), _("every %(n)d minutes"))
    if minute == "0" and (found := _EVERY.fullmatch(hour)) and 24 % int(found[1]) == 0:
        return _every(int(found[1]), _("every hour"), _("every %(n)d hours"))
    return ""


def _every(number: int, one: str, many: str) -> str:
    return one if number == 1 else many % {"n": number}


def _days(weekday: str) -> str:
    """The days by name, a run of them as "Monday to Friday"; both 0 and 7 are a Sunday."""
    words = []
    for part in weekday.split(","):
        first, dash, last = part.partition("-")
        names = [str(WEEKDAYS[(int(number) - 1) % 7]) for number in (first, last) if number]
        words.append(_("%(first)s to %(last)s") % {"first": names[0], "last": names[1]}
                     if dash else names[0])  # fmt: skip
    return ", ".join(words)

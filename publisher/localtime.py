"""Times as people write them: on the clocks of a zone, which skip hours and repeat them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

from publisher.errors import Fault, Refused

INVALID = "fp_publisher_invalid_plan"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time on the clocks of a zone, and the instant that it means."""

    local: str
    zone: str
    at: datetime
    note: str = ""
    """``skipped`` or ``doubled``, where the clocks change."""


def zone_of(name: str, field: str = "zone") -> ZoneInfo:
    """Return the zone; raise Refused for a name that is none."""
    if name not in available_timezones():
        raise Refused(INVALID, Fault(field, "is not a known time zone"))
    return ZoneInfo(name)


def read(text: str, zone: str, field: str = "at") -> Moment:
    """Return the moment that a text means: with an offset, or on the clocks of the zone.

    A time that the clocks skip moves forward by what they skip; of one that they show twice, the
    first counts. Raises Refused.
    """
    clocks = zone_of(zone)
    try:
        given = datetime.fromisoformat(text.strip())
        if given.tzinfo is not None:
            at = given.astimezone(UTC).replace(microsecond=0)
            return Moment(at.astimezone(clocks).strftime("%Y-%m-%dT%H:%M:%S"), zone, at)
        return _on_clocks(given.replace(microsecond=0, fold=0), zone, clocks)
    except (ValueError, OverflowError):
        raise Refused(INVALID, Fault(field, "is no time, such as 2031-05-01T10:00")) from None


def _on_clocks(given: datetime, zone: str, clocks: ZoneInfo) -> Moment:
    here = given.replace(tzinfo=clocks)
    at = here.astimezone(UTC)
    shown = at.astimezone(clocks).replace(tzinfo=None, fold=0)
    if shown != given:
        note = "skipped"
    elif here.utcoffset() != here.replace(fold=1).utcoffset():
        note = "doubled"
    else:
        note = ""
    return Moment(shown.strftime("%Y-%m-%dT%H:%M:%S"), zone, at, note)

"""What people do with the times of a brand: its zone, its posting times, its blackout windows."""

from __future__ import annotations

from datetime import time
from typing import Annotated
from uuid import UUID
from zoneinfo import available_timezones

from pydantic import Field

from jobs import flow
from jobs.verbs import By, acting, verb
from publisher import access, localtime, times, windows
from publisher.errors import Fault, Refused
from publisher.verbs import BRAND, CHANGE_BRAND


@verb("brand.set_times", on=BRAND, permission=CHANGE_BRAND)
def set_times(
    brand_id: UUID,
    times_of_day: Annotated[
        str, Field(max_length=2000, description="such as 09:00, mon-fri 18:30; empty for none")
    ],
    *,
    by: By,
    reason: str,
    time_zone: Annotated[
        str, Field(max_length=64, description="of the brand; what is planned keeps its moment")
    ] = "",
) -> None:
    """Set the posting times of a brand, from which "next" takes the next free one."""
    with acting(set_times, brand_id, by=by, reason=reason) as act:
        brand = BRAND.locked(brand_id)
        access.require(by, brand.pk, "manager")
        before = {"times": times.words(brand), "time_zone": brand.time_zone}
        if time_zone:
            localtime.zone_of(time_zone, "time_zone")
            brand.time_zone = time_zone
        brand.posting_times = times.parse(times_of_day)
        brand.save(update_fields=["posting_times", "time_zone"])
        act.changed(before, {"times": times.words(brand), "time_zone": brand.time_zone})


@verb("brand.add_window", on=BRAND, permission=CHANGE_BRAND)
def add_window(
    brand_id: UUID,
    start: Annotated[time, Field(description="when it begins, such as 22:00")],
    end: Annotated[time, Field(description="when it ends, such as 06:00; the same: a whole day")],
    *,
    by: By,
    reason: str,
    days: Annotated[
        str, Field(max_length=60, description="on which it begins, such as fri or mon-fri")
    ] = "",
    time_zone: Annotated[str, Field(max_length=64, description="that of the brand")] = "",
) -> int:
    """Add a blackout window, in which no post of the brand appears."""
    with acting(add_window, brand_id, by=by, reason=reason) as act:
        brand = BRAND.locked(brand_id)
        access.require(by, brand.pk, "manager")
        if (zone := time_zone or brand.time_zone) not in available_timezones():
            raise Refused(localtime.INVALID, Fault("time_zone", "is not a known time zone"))
        numbers = times.days(days)
        if numbers is None:
            raise Refused(localtime.INVALID, Fault("days", "are such as fri or mon-fri"))
        row = flow.create_blackout(
            windows.scope_of(brand), start, end, by=str(by), reason=reason, time_zone=zone,
            days=sorted((day - 1) % 7 for day in numbers),
        )  # fmt: skip
        act.note(window=row.pk)
    return int(row.pk)


@verb("brand.remove_window", on=BRAND, permission=CHANGE_BRAND)
def remove_window(
    brand_id: UUID,
    window: Annotated[int, Field(ge=1, description="number of the window")],
    *,
    by: By,
    reason: str,
) -> None:
    """Remove a blackout window of a brand; posts that it holds follow at once."""
    with acting(remove_window, brand_id, by=by, reason=reason) as act:
        brand = BRAND.locked(brand_id)
        access.require(by, brand.pk, "manager")
        if not windows.of_brand(brand).filter(pk=window).exists():
            raise Refused(localtime.INVALID, Fault("window", "the brand has no such window"))
        flow.delete_blackout(window, by=str(by), reason=reason)
        act.note(window=window)

"""What follows from the end of a publication for its plan."""

from __future__ import annotations

from jobs import events
from publisher import plans
from publisher.models import Plan


@events.subscriber("publisher.publication.*")
def follow(event: events.Event) -> None:
    """Publish or fail the plan of a publication once all of them have ended."""
    plan = (
        Plan.objects.select_for_update(no_key=True)
        .filter(pk__in=Plan.objects.filter(slots__publication=event.payload["publication"]))
        .first()
    )
    if plan is not None:
        plans.follow(plan)

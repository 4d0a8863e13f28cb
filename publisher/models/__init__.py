"""The tables of the publisher."""

from __future__ import annotations

from publisher.models.assets import Asset
from publisher.models.consents import Consent
from publisher.models.planning import (
    Approval,
    Comment,
    Member,
    Plan,
    PlanVersion,
    Slot,
    Template,
)
from publisher.models.publishing import (
    Account,
    Brand,
    Channel,
    Publication,
    PublicationEvent,
    Refusal,
)

__all__ = [
    "Account",
    "Approval",
    "Asset",
    "Brand",
    "Channel",
    "Comment",
    "Consent",
    "Member",
    "Plan",
    "PlanVersion",
    "Publication",
    "PublicationEvent",
    "Refusal",
    "Slot",
    "Template",
]

"""The tables of the publisher."""

from __future__ import annotations

from publisher.channels import Channel
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

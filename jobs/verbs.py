"""Verbs of apps: what people do with an app's own things, each declared once.

::

    # verbs.py of the app
    PARCEL = Target("parcel", int, "parcels", rows=lambda: Parcel.objects.all(), tenant="shop")

    @verb("parcel.post", on=PARCEL, permission="shop.post_parcel")
    def post(parcel_id: int, *, by: By, reason: str, express: bool = False) -> None:
        \"\"\"Hand a parcel to the carrier.\"\"\"
        with acting(post, parcel_id, by=by, reason=reason) as act:
            parcel = PARCEL.locked(parcel_id)
            ...
            act.note(express=express)

``verbs`` modules of installed apps are imported when Django starts. The command ``manage.py jobs
shop parcel-post``, the operation ``POST /parcels/{parcel_id}/post`` of
``jobs.api.verb_router("shop")`` and the button of a page with ``nouns = ("parcel",)`` follow from
the declaration, with permission check, scope check and the row of the audit.
"""

from __future__ import annotations

from jobs.operate import permissions as permissions
from jobs.operate.acts import Act
from jobs.operate.parameters import HIDDEN
from jobs.operate.targets import EVERYBODYS, JOB, Place, Target
from jobs.operate.verbs import Verb, acting, deny, every, find, of, of_app, of_noun, verb
from jobs.principals import By, Principal, add_group, add_permissions

__all__ = [
    "EVERYBODYS",
    "HIDDEN",
    "JOB",
    "Act",
    "By",
    "Place",
    "Principal",
    "Target",
    "Verb",
    "acting",
    "add_group",
    "add_permissions",
    "deny",
    "every",
    "find",
    "of",
    "of_app",
    "of_noun",
    "permissions",
    "verb",
]


def autodiscover() -> None:
    """Import the ``verbs`` module of every installed app that has one."""
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("verbs")

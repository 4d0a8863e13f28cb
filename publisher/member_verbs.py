"""What managers do with the members of a brand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal
from uuid import UUID

from django.contrib.auth import get_user_model
from pydantic import Field

from jobs.verbs import Act, By, acting, verb
from publisher import access
from publisher.errors import Fault, Refused
from publisher.models import Brand, Member
from publisher.services import INVALID_PLAN
from publisher.verbs import BRAND, CHANGE_MEMBER

Role = Literal["viewer", "editor", "approver", "manager"]
User = Annotated[str, Field(min_length=1, max_length=150, description="name of the user")]


@contextmanager
def _on_members(
    function: Any, brand_id: UUID, name: str, *, by: By, reason: str
) -> Iterator[tuple[Act, Brand, Any]]:
    with acting(function, brand_id, by=by, reason=reason) as act:
        brand = BRAND.locked(brand_id)
        access.require(by, brand.pk, "manager")
        model = get_user_model()
        user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
        if user is None:
            raise Refused(INVALID_PLAN, Fault("user", "there is no such user"))
        act.note(user=str(user.pk))
        yield act, brand, user


@verb("brand.set_member", on=BRAND, permission=CHANGE_MEMBER, group="administrator")
def set_member(brand_id: UUID, user: User, role: Role, *, by: By, reason: str) -> None:
    """Give a user a role in a brand, in place of any other."""
    with _on_members(set_member, brand_id, user, by=by, reason=reason) as (act, brand, person):
        known = Member.objects.filter(brand=brand, user=person).first()
        act.changed({"role": known.role if known else ""}, {"role": role})
        Member.objects.update_or_create(
            brand=brand, user=person, defaults={"role": role, "tenant": brand.tenant}
        )


@verb("brand.remove_member", on=BRAND, permission=CHANGE_MEMBER, group="administrator")
def remove_member(brand_id: UUID, user: User, *, by: By, reason: str) -> None:
    """Remove a user from a brand."""
    with _on_members(remove_member, brand_id, user, by=by, reason=reason) as (_act, brand, person):
        if not Member.objects.filter(brand=brand, user=person).delete()[0]:
            raise Refused(INVALID_PLAN, Fault("user", "is no member of the brand"))

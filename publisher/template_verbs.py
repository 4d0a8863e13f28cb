"""What people do with templates: texts with placeholders, from which plans begin."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from pydantic import Field

import jobs
from jobs.verbs import By, Target, acting, verb
from publisher import access, assets, config, drafts
from publisher.errors import Fault, Refused
from publisher.models import Brand, Template
from publisher.services import INVALID_PLAN
from publisher.verbs import CHANGE_TEMPLATE

TEMPLATE = Target(
    "template", UUID, "templates", rows=Template.objects.all, tenant="tenant", queue=config.QUEUE
)
Name = Annotated[str, Field(min_length=1, max_length=150, description="names it in the brand")]
Caption = Annotated[
    str, Field(max_length=63_206, description="with placeholders, such as {{name}}")
]
Headline = Annotated[str, Field(max_length=500, description="of a blog post or video")]
Link = Annotated[str, Field(max_length=2000)]
FirstComment = Annotated[str, Field(max_length=2200, description="on Instagram")]


def create_with(slug: str, name: str, content: Any, *, by: By) -> Template:
    """Create a template with any content."""
    place = jobs.acts.Place(f"brand:{slug}", config.QUEUE)
    with acting(create, by=by, place=place) as act:
        brand = Brand.objects.filter(slug=slug).first()
        if brand is None:
            raise Refused(INVALID_PLAN, Fault("brand", "there is no such brand"))
        access.require(by, brand.pk, "editor")
        draft = drafts.read(content)
        assets.use(draft)
        made = Template(
            brand=brand, tenant=brand.tenant, name=name, content=draft.kept(), created_by=str(by)
        )
        _save(made, force_insert=True)
        act.concerns(made.pk)
    return made


def edit_with(template_id: UUID, content: Any, name: str | None, *, by: By) -> None:
    """Replace the whole content of a template, its name, or both."""
    with acting(edit, template_id, by=by):
        row = TEMPLATE.locked(template_id)
        access.require(by, row.brand_id, "editor")
        if content is not None:
            draft = drafts.read(content)
            assets.use(draft)
            row.content = draft.kept()
        row.name = name or row.name
        _save(row)


def _save(row: Template, **how: Any) -> None:
    try:
        with transaction.atomic():
            row.save(**how)
    except IntegrityError:
        raise Refused(INVALID_PLAN, Fault("name", "another template has this name")) from None


def content_for(brand_id: Any, template_id: UUID, given: Any) -> Any:
    """Return the content of a template of the brand with what is given in place of its own."""
    row = Template.objects.filter(brand=brand_id, pk=template_id).first()
    if row is None:
        raise Refused(INVALID_PLAN, Fault("template", "the brand has no such template"))
    return {**row.content, **given} if isinstance(given, dict) else given


def placeholders_of(row: Template) -> list[str]:
    """Return the placeholders of a template that have no value yet."""
    return list(dict.fromkeys(name for _, name in drafts.read(row.content).unfilled))


@verb("template.create", on=TEMPLATE, permission=CHANGE_TEMPLATE, new=True)
def create(
    brand: Annotated[str, Field(min_length=1, max_length=60, description="slug of the brand")],
    name: Name,
    *,
    by: By,
    caption: Caption = "",
    headline: Headline = "",
    link: Link = "",
    first_comment: FirstComment = "",
) -> Template:
    """Create a template: a text with placeholders, from which plans begin."""
    return create_with(brand, name, _content(caption, headline, link, first_comment), by=by)


@verb("template.edit", on=TEMPLATE, permission=CHANGE_TEMPLATE)
def edit(
    template_id: UUID,
    *,
    by: By,
    name: Annotated[str | None, Field(min_length=1, max_length=150)] = None,
    caption: Annotated[str | None, Field(max_length=63_206)] = None,
    headline: Annotated[str | None, Field(max_length=500)] = None,
    link: Annotated[str | None, Field(max_length=2000)] = None,
    first_comment: Annotated[str | None, Field(max_length=2200)] = None,
) -> None:
    """Change a template; plans that have begun from it stay as they are."""
    given = {"caption": caption, "title": headline, "link": link, "ig_first_comment": first_comment}
    known = Template.objects.filter(pk=template_id).values_list("content", flat=True).first()
    change = {field: text for field, text in given.items() if text is not None}
    edit_with(template_id, {**(known or {}), **change}, name, by=by)


@verb("template.delete", on=TEMPLATE, permission=CHANGE_TEMPLATE)
def delete(template_id: UUID, *, by: By) -> None:
    """Delete a template; plans that have begun from it stay."""
    with acting(delete, template_id, by=by):
        row = TEMPLATE.locked(template_id)
        access.require(by, row.brand_id, "editor")
        row.delete()


def _content(caption: str, headline: str, link: str, first_comment: str) -> dict[str, str]:
    given = {"caption": caption, "title": headline, "link": link, "ig_first_comment": first_comment}
    return {field: text for field, text in given.items() if text}

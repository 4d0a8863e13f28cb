"""The operations of templates."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from jobs.api import In, Problem, auth, paging
from publisher import template_verbs, verbs
from publisher.api import problem_of, section, within
from publisher.errors import Refused
from publisher.models import Template


class TemplateIn(In):
    """A text with placeholders."""

    brand: str = Field(min_length=1, max_length=60)
    name: str = Field(min_length=1, max_length=150)
    content: dict[str, Any] = Field(default_factory=dict)
    """As that of a plan; its placeholders need no values yet."""


class TemplateChange(In):
    """A new name, or a new content in place of the current one."""

    name: str | None = Field(None, min_length=1, max_length=150)
    content: dict[str, Any] | None = None


class TemplateOut(Schema):
    """A template, and the placeholders that it asks for."""

    id: UUID
    brand: str
    name: str
    content: dict[str, Any]
    placeholders: list[str]
    created_by: str
    created_at: datetime


class TemplatePage(Schema):
    """A page of templates, newest first."""

    data: list[TemplateOut]
    page: paging.PageOut


class TemplateFilters(Schema):
    """Filters of the list."""

    brand: str | None = Field(None, max_length=60)


@section.get("/templates", "template_list", needs=verbs.VIEW_TEMPLATE, answer=TemplatePage)
def template_list(
    request: HttpRequest,
    response: HttpResponse,
    filters: Query[TemplateFilters],
    wanted: Query[paging.PageIn],
) -> Any:
    """List templates, newest first."""
    rows = within(request, Template.objects.all())
    if filters.brand is not None:
        rows = rows.filter(tenant=f"brand:{filters.brand}")
    asked = filters.model_dump(exclude_none=True)
    found = paging.page(request, response, rows, wanted, moment="created_at", filters=asked)
    return {**found, "data": [shown(row) for row in found["data"]]}


@section.post("/templates", "template_create", verb="template.create", answer={201: TemplateOut})
def template_create(request: HttpRequest, body: TemplateIn) -> Any:
    who = auth.who(request)
    try:
        made = template_verbs.create_with(body.brand, body.name, body.content, by=who)
    except Refused as error:
        raise problem_of(error) from None
    return Status(201, shown(_found(request, made.pk)))


@section.get("/templates/{uuid:template_id}", "template_get",
    needs=verbs.VIEW_TEMPLATE, answer=TemplateOut,
)  # fmt: skip
def template_get(request: HttpRequest, template_id: UUID) -> Any:
    """Get a template."""
    return shown(_found(request, template_id))


@section.patch("/templates/{uuid:template_id}", "template_edit",
    verb="template.edit", answer=TemplateOut,
)  # fmt: skip
def template_edit(request: HttpRequest, template_id: UUID, body: TemplateChange) -> Any:
    _found(request, template_id)
    who = auth.who(request)
    try:
        template_verbs.edit_with(template_id, body.content, body.name, by=who)
    except Refused as error:
        raise problem_of(error) from None
    return shown(_found(request, template_id))


@section.delete("/templates/{uuid:template_id}", "template_delete",
    verb="template.delete", answer={204: None},
)  # fmt: skip
def template_delete(request: HttpRequest, template_id: UUID) -> Any:
    _found(request, template_id)
    template_verbs.delete(template_id, by=auth.who(request))
    return Status(204, None)


def _found(request: HttpRequest, template_id: UUID) -> Template:
    row: Template | None = within(request, Template.objects.filter(pk=template_id)).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such template")
    return row


def shown(row: Template) -> dict[str, Any]:
    """Return a template for an answer."""
    return {
        "id": row.pk, "brand": row.tenant.removeprefix("brand:"), "name": row.name,
        "content": row.content, "placeholders": template_verbs.placeholders_of(row),
        "created_by": row.created_by, "created_at": row.created_at,
    }  # fmt: skip

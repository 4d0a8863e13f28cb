"""What people give to a verb is checked whichever face they use."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any, Literal

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import clear_url_caches, path

from jobs.api import build_api, verb_router
from jobs.errors import ConfigError
from jobs.models import Audit
from jobs.operate import verbs
from jobs.principals import By
from tests.specimens import desk
from tests.specimens.models import Plan

WRONG = [
    ("copies", "0"), ("copies", "11"), ("copies", "many"), ("number", "9" * 40), ("day", "banana"),
    ("label", "too long"), ("label", "a\0b"), ("share", "nan"), ("share", "1e999"),
    ("wait", "-1"), ("wait", "1e99"), ("colours", "a\0b"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_no_face_takes_a_value_that_is_not_allowed(
    root: Client, plan: Plan, name: str, value: str
) -> None:
    desk.declare_printing()
    with pytest.raises(CommandError, match=name):
        call_command("jobs", "specimens", "sketch-print", str(plan.pk), f"--{name}={value}")
    form = {"copies": "1", "number": "1", "share": "1", "wait": "1", name: value}
    page = root.post(f"/admin/specimens/plan/{plan.pk}/do/print/", form)
    assert page.status_code == 422 and f"id_{name}_error" in page.content.decode()
    assert not Audit.objects.filter(outcome="done").exists()


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**40])
def test_an_operation_takes_no_number_that_cannot_be_stored(
    root: Client, plan: Plan, number: int
) -> None:
    desk.declare_printing()
    api = build_api(urls_namespace="printing")
    api.add_router("/specimens", verb_router("specimens"))
    sys.modules["tests.operate.urls_of_specimens"].urlpatterns = [path("api/", api.urls)]  # type: ignore[attr-defined]
    clear_url_caches()
    url, kind = f"/api/specimens/plans/{plan.pk}/print", "application/json"
    refused = root.post(url, {"number": number}, content_type=kind)
    assert refused.status_code == 422 and refused.json()["errors"][0]["pointer"] == "/number"
    assert root.post(url, {"number": 7, "day": "2030-01-31"}, content_type=kind).status_code == 200


def test_a_date_reaches_the_function_from_every_face(root: Client, plan: Plan) -> None:
    desk.declare_printing()
    call_command("jobs", "specimens", "sketch-print", str(plan.pk), "--day=2030-01-31")
    url = f"/admin/specimens/plan/{plan.pk}/do/print/"
    assert 'type="date"' in root.get(url).content.decode()
    form = {"copies": "2", "number": "1", "share": "1", "wait": "0", "day": "2030-01-31"}
    assert root.post(url, form).status_code == 302
    rows = Audit.objects.filter(action="sketch.print", outcome="done")
    assert {row.detail["day"] for row in rows} == {"2030-01-31"} and rows.count() == 2


def test_a_parameter_may_be_called_like_an_option_of_django(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.declare_shipping()
    call_command("jobs", "specimens", "sketch-ship", str(plan.pk), "7", "--action=go", "--verb")
    assert capsys.readouterr().out == f"{plan.pk} 7 go True\n"


def test_a_form_that_is_sent_as_it_came_gives_the_defaults(root: Client, plan: Plan) -> None:
    desk.declare_printing()
    url = f"/admin/specimens/plan/{plan.pk}/do/print/"
    form = root.get(url).context["form"]
    sent = {name: value for name in form.fields if (value := form[name].value()) is not None}
    assert root.post(url, sent).status_code == 302
    row = Audit.objects.get(action="sketch.print", outcome="done")
    assert (row.detail["colours"], row.detail["copies"]) == (["black", "red"], 1)


def test_a_type_that_cannot_be_asked_for_is_refused() -> None:
    types = (Decimal, Literal[1, 2], list[Decimal], Plan, list, "Unknown")
    for declared in types:

        def approve(plan_id: int, *, by: By, amount: Any = None) -> None:
            """Approve a plan."""

        approve.__annotations__["amount"] = declared
        with pytest.raises(ConfigError, match=r"'sketch\.approve'.*('amount' has a|not known)"):
            verbs.verb("sketch.approve", on=desk.PLAN, permission="x.y")(approve)


def test_an_option_of_every_command_is_no_parameter() -> None:
    def approve(plan_id: int, *, by: By, json: bool = False) -> None:
        """Approve a plan."""

    with pytest.raises(ConfigError, match="'json' is an option of every command"):
        verbs.verb("sketch.approve", on=desk.PLAN, permission="x.y")(approve)


def test_the_first_parameter_is_the_id_of_the_target() -> None:
    def without_id(*, by: By) -> None:
        """Approve a plan."""

    def with_another(plan_id: str, *, by: By) -> None:
        """Approve a plan."""

    for function in (without_id, with_another):
        with pytest.raises(ConfigError, match="must be the id of a sketch, of type int"):
            verbs.verb("sketch.approve", on=desk.PLAN, permission="x.y")(function)

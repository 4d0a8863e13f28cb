"""One declaration makes a verb appear on every face; without it, it is on none."""

from __future__ import annotations

import json
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest
from django.contrib import admin
from django.core.management import CommandError, call_command
from django.test import Client

from emailgw import api as emails
from emailgw import api_batches as api_batches
from emailgw import api_companies as api_companies
from emailgw import api_suppressions as api_suppressions
from fileproc import api_verbs as documents
from jobs.admin.acting import Acting
from jobs.admin.causeacts import cause_acts
from jobs.api import SECTIONS, build_api, verb_router
from jobs.cli.verb import Verb as Command
from jobs.errors import ConfigError, Denied, UnknownTarget
from jobs.management.commands.jobs import commands
from jobs.models import Audit
from jobs.operate import targets, verbs
from jobs.operate.targets import JOB, Target
from jobs.principals import ALL, By, Principal, Scope
from operations import api as erp
from publisher import api as publications
from tests.jobs.factories import a_job
from tests.specimens import desk
from tests.specimens.models import Plan
from trading import api as trading

APPS = (emails.section, documents.section, publications.section, trading.section, erp.section)


def operations() -> set[str]:
    """The verbs of every operation of the API of the project, as it would be built now."""
    return {
        operation.openapi_extra.get("x-verb", "")
        for section in (*SECTIONS.values(), *APPS)
        for view in section.router.path_operations.values()
        for operation in view.operations
        if operation.openapi_extra is not None
    } - {""}


def buttons() -> set[str]:
    """The verbs of every act of the pages."""
    pages = [page for page in admin.site._registry.values() if isinstance(page, Acting)]
    found = [act for page in pages for act in (*page.row_acts(), *page.new_acts())]
    return {act.verb for act in (*found, *cause_acts())}


def typed() -> set[str]:
    """Every command and sub-command, like ``webhooks ping``."""
    return {line for command in commands().values() for line in _lines(command)}


def _lines(command: Command) -> Iterator[str]:
    parser = ArgumentParser(prog=command.name)
    command.add_arguments(parser)
    several = [one for one in parser._actions if isinstance(one, _SubParsersAction)]
    if not several:
        yield command.name
    for one in several:
        yield from (f"{command.name} {name}" for name in one.choices)


COMMANDS = {"deploy.mark": "mark-deploy", "bulk.start": "bulk run"}
NOUNS = {
    "batch": "batches", "deadletter": "dead-letters", "event": "outbox", "scope": "pauses",
    "effect": "doubts", "bulk": "bulk", "apikey": "api-keys",
}  # fmt: skip


def command_of(verb: verbs.Verb) -> str:
    """What is typed for the verb."""
    if verb.app != "jobs":
        return f"{verb.app} {verb.noun}-{verb.slug}"
    if verb.noun == "job" or verb.name in COMMANDS:
        return COMMANDS.get(verb.name, verb.slug)
    return f"{NOUNS.get(verb.noun, f'{verb.noun}s')} {verb.slug}"


@pytest.mark.parametrize("name", sorted(verbs.every()))
def test_without_its_declaration_it_is_on_no_face(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    verb = verbs.every()[name]
    line = command_of(verb)
    assert name in buttons() and line in typed()
    monkeypatch.delitem(verbs._VERBS, name)
    assert name not in buttons() and line not in typed()
    assert operations() == set(verbs.every())


def test_every_verb_has_an_operation() -> None:
    assert operations() == set(verbs.every())


def done(plan: Plan) -> list[tuple[str, str, str, str]]:
    """What the audit says of the plan, and that it was done."""
    plan.refresh_from_db()
    rows = Audit.objects.filter(target_kind="sketch", target_id=str(plan.pk)).order_by("at", "id")
    return [(row.action, row.via, row.outcome, row.reason) for row in rows]


def test_a_verb_of_an_app_is_an_operation(root: Client, plan: Plan) -> None:
    url = f"/api/specimens/plans/{plan.pk}/approve"
    answer = root.post(url, {"reason": "good", "mood": "bold"}, content_type="application/json")
    assert answer.json() == {"done": True, "result": None}
    assert done(plan) == [("sketch.approve", "api", "done", "good")] and plan.mood == "bold"
    for body in ({}, {"reason": "x", "mood": "sad"}, {"reason": "x", "else": 1}):
        assert root.post(url, body, content_type="application/json").status_code == 422
    nowhere = root.post(
        "/api/specimens/plans/0/approve", {"reason": "x"}, content_type="application/json"
    )
    assert nowhere.status_code == 404 and nowhere.json()["code"] == "unknown-sketch"


def test_a_verb_of_an_app_is_described(plan: Plan) -> None:
    api = build_api(urls_namespace="described")
    api.add_router("/specimens", verb_router("specimens"))
    schema = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/"), default=str))
    [operation] = schema["paths"]["/specimens/plans/{sketch_id}/approve"].values()
    assert operation["summary"] == "Approve a plan"
    assert (operation["x-verb"], operation["x-permission"]) == ("sketch.approve", desk.APPROVE_PLAN)
    body = schema["components"]["schemas"]["SketchApproveIn"]
    assert body["required"] == ["reason"]
    assert body["properties"]["mood"]["enum"] == ["calm", "bold"]
    assert body["properties"]["mood"]["description"] == "how it is read"


def test_a_verb_of_an_app_is_a_command(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("jobs", "specimens", "sketch-approve", str(plan.pk))
    call_command(*arguments, "--reason=good", "--mood=bold")
    assert capsys.readouterr().out == "done\n"
    assert done(plan) == [("sketch.approve", "cli", "done", "good")] and plan.mood == "bold"
    for wrong in (arguments, (*arguments, "--reason=x", "--mood=sad")):
        with pytest.raises(CommandError):
            call_command(*wrong)


def test_a_verb_of_an_app_is_a_button_with_a_form(root: Client, plan: Plan) -> None:
    url = f"/admin/specimens/plan/{plan.pk}/do/approve/"
    asked = root.get(url)
    assert asked.status_code == 200
    text = asked.content.decode()
    assert "Approve a plan." in text and 'name="mood"' in text and "How it is read" in text
    assert root.post(url, {"mood": "bold", "reason": ""}).status_code == 422
    assert root.post(url, {"mood": "bold", "reason": "good"}).status_code == 302
    assert done(plan) == [("sketch.approve", "admin", "done", "good")] and plan.mood == "bold"


def test_another_verb_on_jobs_is_on_the_faces_of_jobs(
    root: Client, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.declare_on_jobs()
    job = a_job(tenant="acme")
    assert "job.applaud" in operations() and "job.applaud" in buttons()
    call_command("jobs", "applaud", str(job), "--times=3")
    assert capsys.readouterr().out == "3\n"
    url = f"/admin/jobs/job/{job}/do/applaud/"
    assert root.get(url).status_code == 200
    assert root.post(url, {"reason": "well done", "times": "2"}).status_code == 302
    rows = Audit.objects.filter(action="job.applaud").order_by("at", "id")
    assert [(row.via, row.detail["times"], row.target_id) for row in rows] == [
        ("cli", 3, str(job)), ("admin", 2, str(job)),
    ]  # fmt: skip


def test_a_verb_of_an_app_asks_for_permission_and_scope(plan: Plan) -> None:
    approve = verbs.every()["sketch.approve"].function
    with pytest.raises(Denied):
        approve(plan.pk, by=Principal("ana", permissions=ALL), reason="x")
    with pytest.raises(UnknownTarget):
        approve(plan.pk, by=Principal("ana", scope=Scope(frozenset({"other"}))), reason="x")
    approve(plan.pk, by=Principal("ana", scope=Scope(frozenset({"acme"}))), reason="x")
    assert [row[2] for row in done(plan)] == ["denied", "denied", "done"]


def test_what_would_be_made_outside_of_the_scope_is_refused_in_words(plan: Plan) -> None:
    ana = Principal("ana", scope=Scope(frozenset({"acme"})))

    @verbs.verb("sketch.draw", on=desk.PLAN, permission=desk.APPROVE_PLAN, new=True)
    def draw(title: str, *, by: By) -> None:
        """Draw a plan."""
        with verbs.acting(draw, by=by, place=targets.Place(title)):
            pass

    with pytest.raises(UnknownTarget, match="this sketch would be outside of your tenants"):
        draw("other", by=ana)
    draw("acme", by=ana)
    assert f"{ana}" == "ana"


@pytest.mark.parametrize(
    ("name", "on", "permission", "problem"),
    [
        ("plan", JOB, "x.y", "must be like"),
        ("job.cancel", JOB, "x.y", "declared twice"),
        ("sketch.approve", Target("job", int), "x.y", "another target"),
        ("sketch.approve", JOB, "", "permission is missing"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(
    name: str, on: Target, permission: str, problem: str
) -> None:
    def approve(plan_id: int, *, by: By, reason: str) -> None:
        """Approve a plan."""

    with pytest.raises(ConfigError, match=problem):
        verbs.verb(name, on=on, permission=permission)(approve)


def test_a_function_without_who_or_what_is_no_verb() -> None:
    def without_by(plan_id: int) -> None:
        """Approve a plan."""

    def without_words(plan_id: int, *, by: By) -> None: ...

    for function, problem in ((without_by, "'by'"), (without_words, "docstring")):
        with pytest.raises(ConfigError, match=problem):
            verbs.verb("sketch.approve", on=JOB, permission="x.y")(function)

"""What pages have got wrong once: counts that lie, buttons that mean nothing, lists that repeat."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys

import pytest
from django.apps import apps
from django.test import Client

import jobs
from jobs.models import Batch, Job
from jobs.operate import bulk
from jobs.testing import run_jobs
from tests.admin.screens import screens
from tests.browser.filling import fill
from tests.specimens.handlers import Echo, Fail, Noop

pytestmark = pytest.mark.django_db


def body(client: Client, path: str) -> str:
    answer = client.get(f"/admin/jobs/{path}")
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_the_live_mark_is_hidden_until_a_script_shows_it(admin_client: Client) -> None:
    ids = fill()
    marks = 0
    for name, path in screens(ids).items():
        for mark in re.findall(r"<[^>]*jd-live\b[^>]*>", body(admin_client, path)):
            if "data-jd-live" not in mark:
                assert " hidden" in mark, name
                marks += 1
    assert marks > 10


def test_scripts_wait_for_the_page(admin_client: Client) -> None:
    scripts = re.findall(r"<script[^>]*jobs/live[^>]*>", body(admin_client, "job/"))
    assert scripts and all(" defer" in script for script in scripts)


def test_a_confirmation_counts_only_what_can_be_changed(admin_client: Client) -> None:
    jobs.enqueue(Fail(message="x"), max_attempts=1)
    jobs.enqueue(Echo(text="done"))
    run_jobs()
    jobs.enqueue(Noop(), delay=60)
    text = body(admin_client, "bulk/do/start/?action=retry&all=1&query=kind:test.*")
    kinds = text.split("By kind, those that will be changed", 1)[1].split("</dl>", 1)[0]
    assert "1 job will be changed" in text and "2 jobs are left out" in text
    assert "test.fail" in kinds and "test.echo" not in kinds and "test.noop" not in kinds
    sample = text.split("Some of them", 1)[1].split("</ul>", 1)[0]
    assert "test.fail" in sample and "test.echo" not in sample


def test_all_that_match_are_meant_by_their_query_however_many_are_shown(
    admin_client: Client,
) -> None:
    jobs.enqueue_many([Noop() for _ in range(60)])
    text = body(admin_client, "job/?kind=test.noop")
    shown = text.count('name="_selected"')
    assert 0 < shown < 60
    [form] = re.findall(r'<form[^>]*action="[^"]*bulk/do/start/".*?</form>', text, re.DOTALL)
    fields = dict(re.findall(r'name="(query|all)"[^>]*value="([^"]*)"', form))
    assert html.unescape(fields["query"]) == "kind:test.noop"
    seen = bulk.preview("cancel", query=html.unescape(fields["query"]), by="ada")
    assert seen.eligible == 60


def test_what_means_nothing_is_dead_and_says_why(admin_client: Client) -> None:
    with jobs.batch("A short one") as made:
        made.add(Echo(text="x"))
    page = f"batch/{made.id}/change/"
    assert not is_dead(body(admin_client, page), "Cancel the rest…")
    run_jobs()
    assert Batch.objects.get().state == "done"
    text = body(admin_client, page)
    assert is_dead(text, "Cancel the rest…") and is_dead(text, "Retry failed…")
    given = {"reason": "because"}
    assert admin_client.post(f"/admin/jobs/batch/{made.id}/do/cancel/", given).status_code == 409
    job = Job.objects.get()
    text = body(admin_client, f"job/{job.pk}/change/")
    for label in ("Retry…", "Run now…", "Edit…", "Cancel…"):
        assert is_dead(text, label), label
    assert not is_dead(text, "Replay as new…")


def is_dead(text: str, label: str) -> bool:
    """Whether the button is dead; then it also says why."""
    for tag, attributes in re.findall(
        rf"<(button|a)([^>]*\bjd-btn[^>]*)>\s*{re.escape(label)}", text
    ):
        dead = 'aria-disabled="true"' in attributes
        assert (tag == "button") == dead
        assert not dead or re.search(r'title="[^"]{5,}"', attributes)
        return dead
    raise AssertionError(f"there is no {label}")


def test_one_error_of_several_kinds_is_one_cause(admin_client: Client) -> None:
    for number in range(6):
        jobs.enqueue(Fail(message=f"no route to host 10.0.0.{number}"), max_attempts=1)
    run_jobs()
    ids = list(Job.objects.order_by("pk").values_list("pk", flat=True))
    assert len(ids) == 6
    text = body(admin_client, "deadletter/")
    assert len(set(re.findall(r"deadletter/cause/(\w+)/do/retry/", text))) == 1
    assert Job.objects.values("error").distinct().count() == 6


def test_the_list_of_jobs_has_tabs_and_no_column_of_filters(admin_client: Client) -> None:
    jobs.enqueue(Noop())
    text = body(admin_client, "job/")
    assert "changelist-filter" not in text
    chosen = set(re.findall(r'<select[^>]*name="(\w+)"', text))
    assert len(chosen - {"action"}) <= 3
    assert len(set(re.findall(r'href="\?tab=(\w+)"', text))) == 7


def test_a_host_installs_no_app_for_columns_that_are_arrays() -> None:
    seen = 0
    for model in apps.get_app_config("jobs").get_models():
        for part in (*model._meta.local_fields, *model._meta.indexes, *model._meta.constraints):
            about = f"{model.__name__}.{part.name}"
            assert type(part).__module__.startswith(("django.db.", "jobs.")), about
            seen += "ArrayField" in type(part).__name__
    assert seen > 5
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.admin.bare_settings"}
    checked = subprocess.run(
        [sys.executable, "manage.py", "check", "--fail-level", "WARNING"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stderr
    assert "no issues" in checked.stdout

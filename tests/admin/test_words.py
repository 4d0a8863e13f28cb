"""Whatever people and programs write is shown as text, and only to whoever may see it."""

from __future__ import annotations

import re
from datetime import time
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.html import escape

import jobs
from jobs import admin
from jobs.admin import panels
from jobs.engine import leases, roll, sql
from jobs.ids import uuid7
from jobs.models import (
    Attempt,
    Audit,
    Batch,
    Bulk,
    BulkItem,
    DeadLetter,
    Job,
    Outbox,
    Schedule,
)
from jobs.operate import blackouts, bulk, pauses, schedules
from jobs.principals import Scope
from jobs.testing import freeze_clock, run_jobs
from tests.specimens.handlers import Echo, Fail, Noop

pytestmark = pytest.mark.django_db
CORPUS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</pre></script><iframe srcdoc=x>",
    "{{ 7|add:7 }}{% debug %}",
    "javascript:alert(1)//%{}%s",
]
SECRET = "words for nobody else"


@pytest.mark.parametrize("text", CORPUS)
def test_what_is_written_stays_text(admin_client: Client, text: str) -> None:
    short = text.replace("\x00", "")
    job = jobs.enqueue(Fail(message=text), max_attempts=1, tenant=short, tags=[short])
    run_jobs()
    Job.objects.filter(pk=job.id).update(
        kind=short, correlation_id=short, progress={"done": 1, "total": 2, "note": text},
        payload={text: {text: [text]}}, error=text, result={text: text},
    )  # fmt: skip
    Attempt.objects.update(error_class=text, message=text, traceback=text, worker=text)
    DeadLetter.objects.update(kind=short, summary=text)
    batch = Batch.objects.create(name=short, tenant=short)
    leases.open_lease(uuid7(), short, [short], 1)
    roll.announce(short, 4711, [short], 1)
    roll.announce("other", 4712, ["default"], 1)
    sql.run("UPDATE jobs_worker SET host = %s, version = %s WHERE name = %s", [text, text, short])
    sql.run("INSERT INTO jobs_cause (fingerprint, sample, note) SELECT fingerprint, %s, %s FROM "
            "jobs_deadletter ON CONFLICT (fingerprint) DO UPDATE SET sample = excluded.sample, "
            "note = excluded.note", [text, text])  # fmt: skip
    window = blackouts.create("kind:test.noop", time(22), time(6), by="ada", reason=short)
    operation = bulk.start("retry", ids=[job.id], by="ada", reason=short)
    BulkItem.objects.update(state="failed", detail=text, decided_at=operation.created_at)
    pauses.pause("queue:default", by="ada", reason=short)
    schedule = schedules.create("odd", Echo(text=text), interval=60, by="ada", reason=short)
    Schedule.objects.update(error=text)
    event = jobs.emit("example.happened", {text: text}, key="k")
    assert event is not None
    letter = DeadLetter.objects.get()
    pages = [
        "overview/", "job/", "job/?tab=dead", f"job/{job.id}/change/", "deadletter/",
        f"deadletter/{letter.pk}/change/", "batch/", f"batch/{batch.pk}/change/", "queue/",
        "queue/default/change/", "workerpage/", "schedule/", f"schedule/{schedule.pk}/change/",
        "outbox/", f"outbox/{Outbox.objects.latest('pk').pk}/change/", "audit/",
        f"audit/{Audit.objects.latest('at').pk}/change/", f"job/{job.id}/do/retry/",
        f"job/{job.id}/do/replay/", f"workerpage/{quote(short, safe='')}/change/",
        f"workerpage/{quote(short, safe='')}/do/stop/", f"queue/{quote(short, safe='')}/change/",
        f"bulk/{operation.pk}/change/", "bulk/", "blackout/", f"blackout/{window.pk}/change/",
        f"job/?q={quote(short)}", f"deadletter/?cause={quote(short)}", f"job/?kind={quote(short)}",
        f"bulk/do/start/?action=retry&all=1&query={quote(short)}",
        f"job/{job.id}/do/retry/?back={quote(short)}",
    ]  # fmt: skip
    shown = 0
    for page in pages:
        answer = admin_client.get(f"/admin/jobs/{page}")
        assert answer.status_code == 200, page
        whole = answer.content.decode()
        assert strange(whole) == [], page
        shown += escape(text) in whole
        for region in re.findall(r'id="(jd-\w+)" data-jd-live', whole):
            join = "&" if "?" in page else "?"
            part = admin_client.get(f"/admin/jobs/{page}{join}_fragment={region}")
            assert part.status_code == 200 and strange(part.content.decode()) == [], page
    assert shown >= 15


class Strange(HTMLParser):
    """Collects what no page of ours has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("img", "iframe", "object", "embed") or (tag == "script" and "src" not in given):
            self.found.append(tag)
        self.found += [name for name in given if name.startswith("on") or name == "style"]
        if str(given.get("href") or "").startswith("javascript:"):
            self.found.append(str(given["href"]))


def strange(text: str) -> list[str]:
    parser = Strange()
    parser.feed(text)
    return parser.found


def test_what_is_strange_is_found() -> None:
    assert strange("<p onload=x><img src=y><a href='javascript:z'><script>1</script>") == [
        "onload", "img", "javascript:z", "script",
    ]  # fmt: skip


def test_a_payload_is_seen_only_with_its_permission(client: Client) -> None:
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(
        content_type__app_label="jobs", codename__in=["view_job", "view_audit"]))  # fmt: skip
    client.force_login(user)
    job = jobs.enqueue(Echo(text=SECRET))
    run_jobs()
    pages = ["job/", f"job/{job.id}/change/", f"job/{job.id}/change/?_fragment=jd-job"]
    for page in pages:
        assert SECRET not in client.get(f"/admin/jobs/{page}").content.decode()
    user.user_permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename="view_payload")
    )
    assert SECRET in client.get(f"/admin/jobs/{pages[1]}").content.decode()


def test_every_tab_counts_what_it_lists(admin_client: Client) -> None:
    with freeze_clock() as clock:
        jobs.enqueue(Fail(message="x"))
        jobs.enqueue(Fail(message="y"), max_attempts=1)
        jobs.enqueue(Echo(text="done"))
        run_jobs()
        jobs.enqueue(Noop(), delay=60)
        jobs.enqueue(Noop())
        jobs.cancel(jobs.enqueue(Noop()).id, by="ada")
        clock.tick(0)
        text = admin_client.get("/admin/jobs/job/").content.decode()
        tabs = re.findall(r'href="\?(tab=\w+)"[^>]*>[^<]*<span class="jd-count">(\d+)<', text)
        assert len(tabs) == 7 and sum(int(n) for _, n in tabs) == 6
        for query, number in tabs:
            listed = admin_client.get(f"/admin/jobs/job/?{query}").content.decode()
            assert listed.count('name="_selected"') == int(number), query


def test_an_app_hangs_its_panel_into_the_page_of_a_job(admin_client: Client) -> None:
    @admin.register_panel("test.*", title="Postcard")
    def postcard(request: Any, job: Any) -> str:
        return f"<b>{job.kind}</b>"

    try:
        job = jobs.enqueue(Noop())
        text = admin_client.get(f"/admin/jobs/job/{job.id}/change/").content.decode()
        assert "Postcard" in text and "&lt;b&gt;test.noop" in text
    finally:
        panels._panels.pop("test.*")


def test_what_is_not_there_is_not_found(admin_client: Client) -> None:
    gone = uuid4()
    pages = (
        "job/x",
        "deadletter/9999",
        "queue/nowhere",
        "outbox/x",
        f"job/{gone}",
        f"batch/{gone}",
    )
    for page in (f"{one}/change/" for one in pages):
        assert admin_client.get(f"/admin/jobs/{page}").status_code == 404, page


def test_a_job_is_retried_with_a_reason_and_written_down(admin_client: Client) -> None:
    job = jobs.enqueue(Fail(message="x"), max_attempts=1)
    run_jobs()
    url = f"/admin/jobs/job/{job.id}/do/retry/"
    assert admin_client.post(url, {"attempts": "1"}).status_code == 422
    assert Job.objects.get().state == "failed"
    back = "/admin/jobs/job/?tab=dead"
    answer = admin_client.post(url, {"attempts": "1", "reason": "mended", "back": back})
    assert (answer.status_code, answer["Location"]) == (302, back)
    assert Job.objects.get().state == "pending"
    assert Audit.objects.get(action="job.retry").reason == "mended"
    assert admin_client.post(url, {"attempts": "1", "reason": "again"}).status_code == 409
    bad = {"attempts": "1", "reason": "x", "back": "//elsewhere.example/"}
    job2 = jobs.enqueue(Noop(), delay=60)
    gone = admin_client.post(f"/admin/jobs/job/{job2.id}/do/cancel/", bad)
    assert gone["Location"] == "/admin/jobs/job/"


def test_all_that_match_are_cancelled_after_a_look(admin_client: Client) -> None:
    jobs.enqueue_many([Noop() for _ in range(3)])
    url = "/admin/jobs/bulk/do/start/?action=cancel&all=1&query=kind:test.noop"
    text = admin_client.get(url).content.decode()
    assert "3 jobs will be changed" in text
    found = re.search(r'name="token" value="([^"]+)"', text)
    assert found is not None and not Bulk.objects.exists()
    jobs.enqueue(Noop())  # came later, and is none of those that were looked at
    answer = admin_client.post(url, {"token": found[1], "reason": "not needed"})
    assert answer.status_code == 302 and "/bulk/" in answer["Location"]
    run_jobs()
    assert Job.objects.filter(kind="test.noop", state="cancelled").count() == 3
    assert admin_client.get(answer["Location"]).status_code == 200
    chosen = Job.objects.filter(kind="test.noop").latest("pk")
    one = f"/admin/jobs/bulk/do/start/?action=replay&_selected={chosen.pk}"
    assert "1 job will be changed" in admin_client.get(one).content.decode()


def only_brand_a(user: Any) -> Scope:
    return Scope(tenants=frozenset({"brand-a"}))


def test_other_tenants_do_not_exist(admin_client: Client, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "SCOPE": "tests.admin.test_words.only_brand_a"}
    mine = jobs.enqueue(Fail(message="x"), max_attempts=1, tenant="brand-a")
    other = jobs.enqueue(Fail(message="x"), max_attempts=1, tenant="brand-b")
    run_jobs()
    listed = admin_client.get("/admin/jobs/job/").content.decode()
    assert str(mine.id) in listed and str(other.id) not in listed
    letters = admin_client.get("/admin/jobs/deadletter/").content.decode()
    assert str(mine.id) in letters and str(other.id) not in letters
    assert admin_client.get(f"/admin/jobs/job/{mine.id}/change/").status_code == 200
    for page in (f"job/{other.id}/change/", f"job/{other.id}/do/retry/"):
        assert admin_client.get(f"/admin/jobs/{page}").status_code == 404
    for page in ("overview/", "queue/", "workerpage/"):  # whose numbers are everybody's
        assert admin_client.get(f"/admin/jobs/{page}").status_code == 403

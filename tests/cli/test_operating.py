"""What people do at the command line: the same verbs, the same records."""

from __future__ import annotations

import getpass
import json
import sys
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import jobs
from jobs import testing
from jobs.cli import operating, watch
from jobs.engine import webhooks
from jobs.management.commands.jobs import Command
from jobs.models import Audit, Bulk
from tests.jobs.factories import a_claim, a_job, ended, row, settle, sql, state
from tests.privacy import vault

pytestmark = pytest.mark.django_db


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    call_command("jobs", *map(str, arguments))
    return capsys.readouterr().out


def dead() -> Any:
    claim = a_claim()
    settle(ended(claim, "unrecoverable"))
    return claim.id


def test_jobs_are_listed_shown_and_acted_upon(capsys: pytest.CaptureFixture[str]) -> None:
    job_id = dead()
    [found] = json.loads(run(capsys, "list", "state:failed", "--json"))
    assert found["id"] == str(job_id) and "payload" not in found
    assert "failed" in run(capsys, "show", job_id)
    assert run(capsys, "retry", job_id, "--reason=fixed", "--attempts=2") == "done\n"
    assert state(job_id) == "pending"
    run(capsys, "edit", job_id, "--priority=7")
    assert row(job_id).priority == 7
    run(capsys, "cancel", job_id, "--reason=no")
    assert state(job_id) == "cancelled"
    acted = Audit.objects.order_by("at", "id").values_list("action", "via", "actor")
    who = getpass.getuser()
    assert list(acted) == [(f"job.{name}", "cli", who) for name in ("retry", "edit", "cancel")]


@pytest.mark.parametrize(
    "arguments",
    [("retry", "x"), ("dead-letters", "discard", "1"), ("bulk", "run", "explode"), ("limits",)],
)
def test_a_wrong_call_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        call_command("jobs", *arguments)


def test_what_is_refused_says_why() -> None:
    with pytest.raises(CommandError, match="it is succeeded"):
        call_command("jobs", "cancel", str(a_job("succeeded")))


def test_a_bulk_operation_is_looked_at_begun_and_watched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    job_id = dead()
    where = ("bulk", "run", "retry", "--where=state:failed")
    seen = json.loads(run(capsys, *where, "--dry-run", "--json"))
    assert (seen["eligible"], Bulk.objects.count()) == (1, 0)
    made = run(capsys, *where, "--yes", "--reason=fixed").splitlines()[-1]
    testing.run_jobs()
    assert state(job_id) == "succeeded"
    assert "100%  1/1  done" in run(capsys, "watch", made)
    assert json.loads(run(capsys, "bulk", "items", made, "--json"))[0]["state"] == "done"
    assert made in run(capsys, "bulk", "list")
    with pytest.raises(CommandError, match="done"):
        run(capsys, "bulk", "abort", made, "--reason=late")


def test_a_batch_is_watched_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with jobs.batch("import") as batch:
        pass
    assert "done" in run(capsys, "watch", batch.id)


def test_a_bar_says_how_far_it_is() -> None:
    seen = watch.Look("running", 5, 10, 1, 2.0, 2.5, False, False)
    assert (
        watch.line(seen) == "█" * 15 + "░" * 15 + "  50%  5/10  running  1 failed  2.0/s  2 s left"
    )


def test_causes_and_dead_letters_are_decided_upon(capsys: pytest.CaptureFixture[str]) -> None:
    dead()
    [cause] = json.loads(run(capsys, "causes", "list", "--json"))
    run(capsys, "causes", "resolve", cause["fingerprint"], "--reason=fixed")
    assert run(capsys, "causes", "list") == "There is no open cause.\n"
    [letter] = json.loads(run(capsys, "dead-letters", "list", "--json"))
    run(capsys, "dead-letters", "discard", letter["id"], "--reason=fixed")
    assert "No dead letter" in run(capsys, "dead-letters", "list")


@pytest.mark.parametrize("name", sorted(operating.GROUPS))
def test_every_list_is_printed_both_ways(capsys: pytest.CaptureFixture[str], name: str) -> None:
    if operating.GROUPS[name].listing is None:
        return
    assert run(capsys, name, "list").strip()
    assert isinstance(json.loads(run(capsys, name, "list", "--json")), list)


def test_queues_are_listed_paused_limited_and_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    a_job()
    [seen] = [q for q in json.loads(run(capsys, "queues", "list", "--json")) if q["waiting"]]
    assert (seen["name"], seen["waiting"], seen["paused"], seen["limit"]) == (
        "default",
        1,
        "",
        None,
    )
    run(capsys, "queues", "pause", "default", "--reason=look")
    assert "look" in run(capsys, "queues", "list")
    answer = json.loads(run(capsys, "queues", "resume", "default", "--reason=ok", "--json"))
    assert answer == {"scope": "queue:default", "resumed": True}
    until = "--until=2100-01-01T00:00Z"
    run(capsys, "queues", "override", "default", "--at-once=3", until, "--reason=slow")
    [found] = [q for q in json.loads(run(capsys, "queues", "list", "--json")) if q["limit"]]
    assert found["limit"] == 3
    run(capsys, "queues", "end-override", "default", "--reason=fine")
    with pytest.raises(CommandError, match="override"):
        run(capsys, "queues", "end-override", "default", "--reason=fine")


def test_the_document_of_the_api_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "openapi"))
    assert found["openapi"].startswith("3.1") and "/api/v1/bulk-operations" in found["paths"]


def test_an_event_is_decided_upon_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    jobs.emit("order.paid", {})
    [seen] = json.loads(run(capsys, "outbox", "list", "--state=pending", "--json"))
    number = seen["number"]
    answer = json.loads(run(capsys, "outbox", "park", number, "--reason=wait", "--json"))
    assert answer == {"number": number, "done": True}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("list",), 0),
        (("cancel", "01a1ef16-8f89-7350-96a8-ea35c9a45f51"), 1),
        (("show", "01a1ef16-8f89-7350-96a8-ea35c9a45f51"), 1),
        (("cancel", "no-id"), 2),
        (("dead-letters", "discard", "1"), 2),
        (("explode",), 2),
    ],
)
def test_exit_codes_tell_done_refused_and_wrong(arguments: tuple[str, ...], code: int) -> None:
    """As a shell sees them."""
    with pytest.raises(SystemExit) as ended:
        command = Command(stdout=StringIO(), stderr=StringIO())
        command.run_from_argv(["manage.py", "jobs", *arguments])
        sys.exit(0)
    assert ended.value.code == code


def test_the_groups_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys, "groups", "--json"))["jobs operator"] > 0


def test_webhooks_are_made_and_shown_without_their_secrets(
    capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    settings.JOBS = {**vault.KEYS, "WEBHOOKS": True}
    webhooks.register()
    made = json.loads(
        run(
            capsys,
            "webhooks",
            "create",
            "https://a.example.com/",
            "--tenant=acme",
            "--topics=order.*",
            "--topics=mail.*",
            "--reason=new",
            "--json",
        )
    )
    run(capsys, "webhooks", "ping", made["id"], "--reason=there?")
    [sent] = json.loads(run(capsys, "webhooks", "deliveries", made["id"], "--json"))
    assert sent["topic"] == "jobs.webhook.ping" and "data" not in sent
    assert "waiting" in run(capsys, "webhooks", "deliveries", made["id"])
    [listed] = json.loads(run(capsys, "webhooks", "list", "--json"))
    assert listed["topics"] == ["order.*", "mail.*"] and "secrets" not in listed
    shown = run(capsys, "webhooks", "show", made["id"])
    assert made["secret"] not in shown and "a.example.com" in shown
    run(capsys, "webhooks", "pause", made["id"], "--reason=late")
    with pytest.raises(CommandError, match="it is paused"):
        run(capsys, "webhooks", "ping", made["id"], "--reason=there?")
    webhooks.unregister()


def test_a_key_is_made_with_several_permissions(capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "api-keys", "create", "site", "view_job,cancel_job", "--reason=x", "--json")
    made = json.loads(told)
    assert made["key"]["permissions"] == ["cancel_job", "view_job"]
    assert made["text"].startswith("jd_live_") and "secret_hash" not in told


def test_all_of_a_cause_are_retried_with_care(capsys: pytest.CaptureFixture[str]) -> None:
    [(cause,)] = sql("SELECT fingerprint FROM jobs_deadletter WHERE job_id = %s", [dead()])
    care = ("--per-minute=600", "--canary=2", "--stop-at=0.5")
    made = json.loads(run(capsys, "causes", "retry-all", cause, "--reason=why", "--json", *care))
    begun = Bulk.objects.get(pk=made["id"])
    assert (begun.per_minute, begun.canary, begun.stop_at) == (600, 2, 0.5)
    made = json.loads(run(capsys, "causes", "discard-all", cause, "--reason=why", "--json"))
    assert Bulk.objects.get(pk=made["id"]).per_minute is None

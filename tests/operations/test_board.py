"""The live board: trouble first, what runs, who waits and why, and what it costs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from config.standins.erp.server import Erp
from jobs.models import Breaker
from jobs.testing import freeze_clock, run_jobs
from operations import states, verbs
from operations.admin import board
from operations.clock import now
from operations.models import Agent, Login, Operation, Phase, SyncState
from operations.verbs import PERMISSIONS
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, order

pytestmark = pytest.mark.django_db
BOARD = "/admin/operations/agent/"


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def lines(staff: Client, address: str = BOARD) -> dict[str, str]:
    """The text of each line, by its agent, in the order of the board."""
    content = staff.get(address).content.decode()
    found = {}
    for row in re.findall(r"<tr data-jd-row>(.*?)</tr>", content, re.DOTALL):
        text = " ".join(re.sub(r"<[^>]+>", " ", row).split())
        found[text.split()[0]] = text
    return found


def test_trouble_comes_first_and_says_what_it_is(staff: Client, erp: Erp) -> None:
    for key in ("ada", "bea", "carla", "dora", "emma", "fina"):
        new_agent(key)
    Agent.objects.filter(pk="fina").update(login=Login.REFUSED)
    Breaker.objects.create(name="erp:emma", state="open", retry_at=now())
    verbs.pause("dora", by="office", reason="on holiday")
    ask("submit-order", order("P-1"), agent="carla")
    ask("submit-order", order("P-2"), agent="emma")
    ask("submit-order", order("P-3"), agent="fina")
    found = lines(staff)
    assert list(found) == ["emma", "fina", "dora", "carla", "ada", "bea"]
    assert "the ERP does not answer; it is tried at" in found["emma"]
    assert "login refused" in found["fina"] and "the login is refused" in found["fina"]
    assert "on holiday" in found["dora"] and "Resume" in found["dora"]
    assert "submit-order Pending order P-1 its turn has come" in found["carla"]
    assert "Rossi" not in str(found)


def test_it_shows_what_runs_how_far_it_is_and_why_others_wait(staff: Client, erp: Erp) -> None:
    new_agent("ada")
    sync = ask("sync-customers", {})
    states.operation.move(sync.pk, Phase.IN_PROGRESS, by="worker", started_at=now())
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_job SET progress = %s WHERE id = %s",
            ['{"done": 30, "total": 60}', sync.pk],
        )
    for number in range(3):
        ask("submit-order", order(f"P-{number}"))
    SyncState.objects.create(agent_id="ada", type="sync-orders")
    Agent.objects.update(last_seen_at=now())
    line = lines(staff)["ada"]
    assert "sync-customers 50% Stop" in line
    assert "submit-order Pending order P-0 the agent is busy and 2 more" in line
    assert f"/admin/operations/operation/{sync.pk}/do/cancel/" in staff.get(BOARD).content.decode()


def test_what_runs_is_shown_however_much_waits(
    staff: Client, erp: Erp, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "MOST", 2)
    for number in range(3):
        ask("submit-order", order(f"P-{number}"))
    runs = ask("sync-customers", {})
    states.operation.move(runs.pk, Phase.IN_PROGRESS, by="worker", started_at=now())
    assert "sync-customers" in lines(staff)["ada"]


def test_decisions_are_one_click_away(staff: Client, erp: Erp, agent: Agent) -> None:
    erp.script("ada", "wrong_total")
    row = ask("submit-order", order())
    run_jobs(["erp-write"])
    verbs.sync_now("ada", "sync-customers", by="tests")
    with freeze_clock():
        run_jobs(["erp-sync"])
        erp.script("ada", "empty")
        verbs.sync_now("ada", "sync-customers", by="tests")
        run_jobs(["erp-sync"])
    content = staff.get(BOARD).content.decode()
    assert f"/admin/operations/operation/{row.pk}/change/" in content
    assert ">a write</a>" in content and ">deletions</a>" in content


def test_what_it_offers_can_be_done(staff: Client, erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order())
    content = staff.get(BOARD).content.decode()
    for act in ("pause", "stop", "sync-now"):
        assert f"{BOARD}ada/do/{act}/" in content
    assert f"{BOARD}ada/do/resume/" not in content
    assert f"{BOARD}do/stop-type/" in content
    answer = staff.post(f"{BOARD}do/stop-type/", {"type": "submit-order", "reason": "wrong"})
    assert answer.status_code == 302
    assert Operation.objects.get(pk=row.pk).phase == Phase.CANCELLED


def test_an_agents_user_sees_its_own_line(client: Client, erp: Erp, agent: Agent) -> None:
    user = User.objects.create_user("bob", is_staff=True)
    names = [name.partition(".")[2] for name in PERMISSIONS]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    new_agent("bob", user=user)
    ask("submit-order", order())
    client.force_login(user)
    assert list(lines(client)) == ["bob"]


def test_sixty_agents_cost_no_more_statements_than_one(staff: Client, erp: Erp) -> None:
    counts: list[Any] = []
    for number in range(2):
        new_agent(f"agent-{number}")
        ask("sync-customers", {}, agent=f"agent-{number}")
    staff.get(BOARD)
    for more in (0, 58):
        for number in range(more):
            new_agent(f"more-{number}", last_seen_at=now())
            ask("submit-order", order(), agent=f"more-{number}")
        with CaptureQueriesContext(connection) as asked:
            staff.get(BOARD)
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 24, counts
    # The second page goes on where the first one ended.
    address = re.search(r'href="(\?after=[^"]+)"', staff.get(BOARD).content.decode())
    assert address is not None
    first, second = lines(staff), lines(staff, BOARD + address[1])
    assert len(first) == 50 and len(second) == 10 and not set(first) & set(second)

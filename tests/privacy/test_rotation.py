"""Keys are rotated in portions, from wherever it stopped, and none goes that a row needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import call_command

import jobs
from jobs import testing
from jobs.fields import SealError
from jobs.keyring import KeyRing, Place
from jobs.operate import keys as ring_keys
from jobs.operate import schedules
from tests.privacy import vault
from tests.privacy.vault import Person, Register, raw

CPF = "529.982.247-25"


@pytest.fixture
def everything(people: Any, register: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sealed with ``old``: 6 people, 5 jobs in several states, a schedule. Portions of 2 rows."""
    every = [*apps.get_models(), Person]
    monkeypatch.setattr(apps, "get_models", lambda: every)
    monkeypatch.setattr(ring_keys, "CHUNK", 2)
    for n in range(6):
        Person.objects.create(company=f"c{n % 2}", cpf=f"{CPF}-{n}", notes="note", extra={"n": n})
    jobs.enqueue_many([Register(number=n, cpf=CPF) for n in range(3)])
    testing.run_jobs()
    jobs.enqueue(Register(number=3, cpf=CPF, how="raise"), tenant="acme", max_attempts=1)
    testing.run_jobs()
    jobs.enqueue(Register(number=4, cpf=CPF), delay=9, tenant="acme")
    schedules.create("nightly", Register(number=5, cpf=CPF), by="ana", reason="x", cron="0 3 * * *")
    yield every


def count(key: str) -> int:
    return sum(counter[key] for counter in ring_keys.usage().values())


def readable() -> None:
    """Everything still says what it said."""
    for person in Person.objects.order_by("cpf_index"):
        assert person.cpf == f"{CPF}-{person.extra['n']}"
        assert person.notes == "note"
    assert len(testing.enqueued(Register, cpf=CPF)) == 5


ALL = 6 * 3 + 5 + 1


def test_the_usage_counts_rows_by_key(everything: Any) -> None:
    used = {name: rows for name, rows in ring_keys.usage().items() if rows}
    assert used == {
        "privacy_person.cpf": {"old": 6},
        "privacy_person.notes": {"old": 6},
        "privacy_person.extra": {"old": 6},
        "jobs_job.payload": {"old": 5},
        "jobs_schedule.payload": {"old": 1},
    }


def test_a_rotation_seals_everything_anew(everything: Any, settings: Any) -> None:
    settings.JOBS = vault.BOTH
    readable()
    assert sum(portion.rows for portion in ring_keys.rotate()) == ALL
    assert (count("old"), count("new")) == (0, ALL)
    settings.JOBS = vault.ONLY_NEW
    readable()
    with testing.freeze_clock() as clock:
        clock.tick(timedelta(days=1))
        from jobs.engine.schedules import tick

        assert len(tick()) == 1
        assert testing.run_jobs().succeeded == 2
    assert sum(portion.rows for portion in ring_keys.rotate()) == 0


@pytest.mark.parametrize("after", [0, 1, 2, 5, 9, 12])
def test_a_rotation_goes_on_where_it_stopped(everything: Any, settings: Any, after: int) -> None:
    settings.JOBS = vault.BOTH
    begun = ring_keys.rotate()
    done = sum(next(begun).rows for _ in range(after))
    begun.close()
    assert count("new") == done
    readable()
    assert sum(portion.rows for portion in ring_keys.rotate()) == ALL - done
    assert count("old") == 0
    settings.JOBS = vault.ONLY_NEW
    readable()


def test_a_portion_that_fails_is_taken_back(
    everything: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.JOBS = vault.BOTH
    begun = ring_keys.rotate()
    assert next(begun).rows == 2
    seal = KeyRing.seal
    calls = 0

    def break_off(self: Any, clear: bytes, place: Place) -> str:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return seal(self, clear, place)

    monkeypatch.setattr("jobs.keyring.KeyRing.seal", break_off)
    with pytest.raises(KeyboardInterrupt):
        next(begun)
    monkeypatch.undo()
    monkeypatch.setattr(apps, "get_models", lambda: everything)
    assert (count("old"), count("new")) == (ALL - 2, 2)
    readable()


def test_a_row_that_does_not_open_is_named_and_left(everything: Any, settings: Any) -> None:
    settings.JOBS = vault.BOTH
    one, other = Person.objects.order_by("id")[:2]
    raw("UPDATE privacy_person SET notes = 'garbage' WHERE id = %s", one.pk)
    raw(
        "UPDATE privacy_person SET cpf = (SELECT cpf FROM privacy_person WHERE id = %s) "
        "WHERE id = %s",
        one.pk,
        other.pk,
    )
    portions = list(ring_keys.rotate())
    broken = [line for portion in portions for line in portion.broken]
    assert [str(one.pk) in broken[1], str(other.pk) in broken[0], len(broken)] == [True, True, 2]
    assert CPF not in str(broken)
    assert (count("old"), count("new")) == (1, ALL - 2)
    with pytest.raises(SealError):
        _ = Person.objects.get(pk=one.pk).notes


def test_rows_written_meanwhile_are_not_overwritten(everything: Any, settings: Any) -> None:
    settings.JOBS = vault.BOTH
    begun = ring_keys.rotate()
    next(begun)
    last = Person.objects.order_by("id").last()
    assert last is not None
    last.cpf = "changed"
    last.save()
    for _ in begun:
        pass
    assert Person.objects.get(pk=last.pk).cpf == "changed"


# ---- dropping


def test_a_key_in_use_is_missed(everything: Any, settings: Any) -> None:
    settings.JOBS = vault.BOTH
    assert ring_keys.missing() == {}
    assert ring_keys.missing(["old"]) == {"old": ALL}
    settings.JOBS = vault.ONLY_NEW
    assert ring_keys.missing() == {"old": ALL}


def test_the_check_of_the_database_names_the_key(everything: Any, settings: Any) -> None:
    def found() -> list[str]:
        checked = run_checks(tags=["database"], databases=["default"])
        return [f"{message.id} {message.msg}" for message in checked]

    settings.JOBS = vault.BOTH
    assert found() == []
    settings.JOBS = vault.ONLY_NEW
    [told] = found()
    assert told == f"jobs.E042 {ALL} rows need the key 'old', which JOBS['KEYS'] lacks"


def test_the_commands(everything: Any, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def command(*arguments: str) -> tuple[int, str]:
        code = 0
        try:
            call_command("jobs", "keys", *arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        told = capsys.readouterr()
        return code, told.out + told.err

    settings.JOBS = vault.BOTH
    code, told = command("status")
    assert code == 0
    assert "Current key: new. All keys: new, old." in told
    assert "privacy_person.cpf     old  6     to be rotated" in told
    assert command("check") == (0, "Every row can be read.\n")
    code, told = command("check", "--dropping", "old")
    assert code == 1
    assert f"{ALL} rows need the key old." in told
    assert command("check", "--dropping", "new")[0] == 1
    code, told = command("rotate")
    assert code == 0
    assert f"{ALL} rows have the key new now." in told
    assert command("check", "--dropping", "old") == (0, "Every row can be read.\n")
    code, told = command("status", "--json")
    assert json.loads(told)["rows"]["jobs_job.payload"] == {"new": 5}
    assert json.loads(command("rotate", "--json")[1]) == {"rows": 0, "broken": []}
    raw("UPDATE privacy_person SET cpf = 'garbage'")
    assert command("check", "--json")[0] == 1
    assert "(damaged)" in command("check")[1]
    assert "(damaged)" in command("status")[1]

"""Circuit breakers: opened by failures in a row, probed by one, closed for all."""

from __future__ import annotations

import errno
import smtplib
import socket
from datetime import timedelta
from typing import Any

import pytest

import jobs
import jobs.http
from jobs.engine import breakers as moves
from jobs.models import Breaker
from jobs.operate import breakers as operate
from jobs.testing import Clock
from tests.jobs.breakers.failing import Down, fail, failing, opened, state

pytestmark = pytest.mark.django_db


class Refused(Exception):
    pass


# ---- closed


def test_a_breaker_that_never_failed_leaves_no_row(name: str) -> None:
    assert jobs.breaker(name).call(lambda: 7) == 7
    assert not Breaker.objects.exists()


def test_failures_in_a_row_open_the_circuit(name: str, clock: Clock) -> None:
    breaker = jobs.breaker(name, threshold=3)
    fail(breaker, 2)
    assert (state(name), Breaker.objects.get(name=name).failures) == ("closed", 2)
    fail(breaker)
    found = Breaker.objects.get(name=name)
    assert (found.state, found.failures, found.last_error) == ("open", 3, "Down: 503")
    assert found.opened_at is not None and found.retry_at is not None
    assert found.retry_at - found.opened_at == timedelta(seconds=60)


def test_a_success_ends_the_row_of_failures(name: str) -> None:
    breaker = jobs.breaker(name, threshold=2)
    for _ in range(3):
        fail(breaker)
        breaker.call(int)
    assert (state(name), Breaker.objects.get(name=name).failures) == ("closed", 0)


def test_a_threshold_of_one_opens_at_once(name: str) -> None:
    fail(jobs.breaker(name, threshold=1))
    assert state(name) == "open"


@pytest.mark.parametrize(
    ("counts", "error", "failures"),
    [
        (Exception, Down(), 2),
        (Down, Down(), 2),
        ((Down, OSError), TimeoutError(), 2),
        (Down, Refused(), 0),  # the service answered: the failure before it does not count on
        (Exception, jobs.Snooze(1), 1),  # says nothing
        (Exception, jobs.Stopped("shutdown"), 1),
        (Exception, KeyboardInterrupt(), 1),
        ((Down, jobs.RetryAfter), jobs.RetryAfter(1), 2),
    ],
)
def test_what_counts(name: str, counts: Any, error: BaseException, failures: int) -> None:
    fail(jobs.breaker(name, counts=Down))
    with pytest.raises(type(error)):
        jobs.breaker(name, counts=counts).call(failing, error)
    assert Breaker.objects.get(name=name).failures == failures


def answer(status: int) -> Exception:
    request = jobs.http.Request("GET", "https://a.example/")
    return jobs.http.HTTPStatusError(
        str(status), request=request, response=jobs.http.Response(status, request=request)
    )


def caused(cause: BaseException) -> Exception:
    error = ValueError("it did not go well")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ConnectionRefusedError(), "open"),
        (BrokenPipeError(), "open"),
        (TimeoutError(), "open"),
        (socket.gaierror(-2, "no such name"), "open"),
        (OSError(errno.EHOSTUNREACH, "no way there"), "open"),
        (jobs.http.TooSlow("silent"), "open"),
        (jobs.http.Unreachable("away"), "open"),
        (smtplib.SMTPServerDisconnected(), "open"),
        (answer(503), "open"),
        (caused(ConnectionResetError()), "open"),
        (caused(answer(504)), "open"),
        # The service answers, whatever this customer has asked.
        (answer(400), "closed"),
        (answer(404), "closed"),
        (answer(500), "closed"),
        (jobs.http.TooLarge("too large"), "closed"),
        # Nobody knows whose fault it is: the failure before it counts on.
        (ValueError("in the letter"), "waiting"),
        (KeyError("x"), "waiting"),
        (FileNotFoundError("template"), "waiting"),
        (smtplib.SMTPRecipientsRefused({}), "waiting"),
        (jobs.http.Blocked("not public"), "waiting"),
        (caused(KeyError("x")), "waiting"),
    ],
)
def test_only_outages_count_unless_told_otherwise(name: str, error: Exception, state: str) -> None:
    breaker = jobs.breaker(name, threshold=2)
    fail(breaker)
    with pytest.raises(type(error)):
        breaker.call(failing, error)
    found = Breaker.objects.get(name=name)
    assert (found.state, found.failures) == {
        "open": ("open", 2), "closed": ("closed", 0), "waiting": ("closed", 1),
    }[state]  # fmt: skip


@pytest.mark.parametrize(("verdict", "failures"), [(True, 2), (False, 0), (None, 1)])
def test_a_function_may_say_what_counts(name: str, verdict: bool | None, failures: int) -> None:
    fail(jobs.breaker(name, threshold=9))
    with pytest.raises(Refused):
        jobs.breaker(name, threshold=9, counts=lambda error: verdict).call(failing, Refused())
    assert Breaker.objects.get(name=name).failures == failures


@pytest.mark.parametrize(("cause", "failures"), [(Down(), 1), (Refused(), 0)])
def test_what_did_not_happen_is_judged_by_its_cause(
    name: str, cause: Exception, failures: int
) -> None:
    with pytest.raises(jobs.effects.NotHappened), jobs.breaker(name, counts=Down):
        raise jobs.effects.NotHappened from cause
    assert sum(Breaker.objects.values_list("failures", flat=True)) == failures


# ---- open


def test_an_open_circuit_calls_nothing_and_says_when_to_come_back(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(40)
    with pytest.raises(jobs.effects.CircuitOpen, match=f"circuit {name} is open") as caught:
        breaker.call(pytest.fail)
    assert 60 <= caught.value.delay <= 65
    assert state(name) == "open"


def test_those_who_come_back_are_spread(name: str, clock: Clock) -> None:
    breaker = opened(name)
    delays = set()
    for _ in range(20):
        with pytest.raises(jobs.effects.CircuitOpen) as caught:
            breaker.call(pytest.fail)
        delays.add(caught.value.delay)
    assert len(delays) > 10


def test_a_late_failure_changes_nothing_of_an_open_circuit(name: str, clock: Clock) -> None:
    breaker = jobs.breaker(name, threshold=1, open_for=100)
    with pytest.raises(Down), breaker:
        fail(breaker)
        clock.tick(10)
        raise Down("late")
    found = Breaker.objects.get(name=name)
    assert (found.failures, found.last_error) == (1, "Down: 503")
    assert found.retry_at == clock.now + timedelta(seconds=90)


@pytest.mark.parametrize("error", [Refused, TimeoutError])
def test_some_failures_open_the_circuit_at_once(name: str, error: type[Exception]) -> None:
    breaker = jobs.breaker(name, threshold=5, counts=Down, trips=(Refused, TimeoutError))
    with pytest.raises(error):
        breaker.call(failing, error())
    assert state(name) == "open"


def test_a_handler_may_ask_whether_it_is_open(name: str, clock: Clock) -> None:
    breaker = jobs.breaker(name, threshold=1, open_for=100)
    breaker.raise_if_open()
    fail(breaker)
    with pytest.raises(jobs.effects.CircuitOpen) as caught:
        breaker.raise_if_open()
    assert 100 <= caught.value.delay <= 105
    clock.tick(100)
    with pytest.raises(jobs.effects.CircuitOpen):  # due to be probed, which asking does not do
        breaker.raise_if_open()
    assert state(name) == "open"
    breaker.call(int)
    breaker.raise_if_open()


# ---- half open


def test_a_probe_that_succeeds_closes_the_circuit(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    with breaker:
        assert state(name) == "half_open"
        with pytest.raises(jobs.effects.CircuitOpen) as caught:
            jobs.breaker(name).call(pytest.fail)
        assert caught.value.delay <= 8  # a probe is soon over
    found = Breaker.objects.get(name=name)
    assert (found.state, found.failures, found.retry_at, found.probe_token) == (
        "closed", 0, None, None,
    )  # fmt: skip


def test_a_probe_that_fails_opens_it_again(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    fail(breaker)
    found = Breaker.objects.get(name=name)
    assert (found.state, found.failures) == ("open", 3)
    assert found.retry_at == clock.now + timedelta(seconds=100)


def test_a_probe_that_learns_nothing_passes_the_turn_on(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    with pytest.raises(jobs.Snooze), breaker:
        raise jobs.Snooze(1)
    assert state(name) == "open"
    assert breaker.call(lambda: 7) == 7
    assert state(name) == "closed"


def test_a_probe_that_is_not_heard_of_is_replaced(name: str, clock: Clock) -> None:
    breaker = opened(name, probe_for=30)
    clock.tick(100)
    lost = moves.enter({name: 30})[name]
    assert lost.probe is not None
    clock.tick(31)
    assert breaker.call(lambda: state(name)) == "half_open"
    assert state(name) == "closed"
    # The one that was lost comes back, and its word counts no more.
    moves.fail(name, lost, 2, 100, "late")
    assert state(name) == "closed"


def test_blocks_of_several_breakers_may_nest(name: str, clock: Clock) -> None:
    first, second = opened(name), opened(name + ":b")
    clock.tick(100)
    with first, second:
        assert (state(name), state(name + ":b")) == ("half_open", "half_open")
    assert (state(name), state(name + ":b")) == ("closed", "closed")


# ---- people


def test_a_person_closes_the_circuit(name: str, clock: Clock) -> None:
    breaker = opened(name)
    operate.reset(name, by="ann", reason="they are back")
    assert breaker.call(lambda: state(name)) == "closed"
    assert Breaker.objects.get(name=name).failures == 0


def test_a_probe_that_was_forgotten_by_a_reset_decides_nothing(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    with pytest.raises(Down), breaker:
        operate.reset(name, by="ann")
        raise Down
    assert (state(name), Breaker.objects.get(name=name).failures) == ("closed", 0)


def test_an_unknown_breaker_is_not_reset() -> None:
    with pytest.raises(jobs.errors.UnknownTarget, match="there is no breaker 'nobody'"):
        operate.reset("nobody", by="ann")


def test_what_is_open_is_listed_first(name: str) -> None:
    fail(jobs.breaker("a" + name))
    opened("z" + name)
    assert [b.name for b in operate.known()] == ["z" + name, "a" + name]

"""The browser itself: pages that are rude, hang or die, and nothing of it that stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from config.standins.erp import pages
from config.standins.erp.server import Erp
from operations import clients
from operations.clients import chromium, reaper
from operations.errors import ErpUnreachable, ErpUnreadable, LoginRefused, SessionEnded
from operations.models import Agent, ClientKind
from tests.operations.test_client import body
from tests.wait import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


class Ended(Exception):
    """The attempt was stopped."""


def stop() -> None:
    raise Ended


@pytest.fixture(scope="module", autouse=True)
def no_browser_is_left() -> Iterator[None]:
    yield
    chromium.close()
    assert list(reaper.marked(reaper.owner())) == []


@pytest.fixture
def agent(agent: Agent, erp: Erp, settings: Any) -> Agent:
    agent.client = ClientKind.BROWSER
    agent.save()
    settings.OPERATIONS = {**settings.OPERATIONS, "CALL_TIMEOUT": 20}
    return agent


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        ("half_page", ErpUnreadable, "unreadable_answer"),
        ("changed_page", ErpUnreadable, "page_changed"),
        ("strange_page", ErpUnreadable, "page_changed"),
        ("expire_session", SessionEnded, "session_ended"),
    ],
)
def test_a_rude_form_is_not_sent(
    agent: Agent, erp: Erp, fault: str, error: type[Exception], code: str
) -> None:
    with clients.connect(agent) as client:
        client.login("secret")
        erp.script("ada", fault)
        with pytest.raises(error, match=code) as raised:
            client.write("submit-order", "r-1", body())
        cause = raised.value.__cause__
        assert isinstance(raised.value, SessionEnded) or getattr(cause, "sent", None) is False
        client.login("secret")
        assert client.find("r-1") is None


def test_a_login_that_leads_elsewhere_is_no_login(agent: Agent, erp: Erp) -> None:
    erp.script("ada", "redirect_login")
    with clients.connect(agent) as client:
        with pytest.raises(ErpUnreadable, match="redirected"):
            client.login("secret")
        with pytest.raises(LoginRefused):
            client.login("wrong")  # the first password is the known one
            client.login("another")


def test_a_page_that_hangs_ends_with_its_time_or_its_attempt(agent: Agent, erp: Erp) -> None:
    with clients.connect(agent, 2) as client:
        client.login("secret")
        erp.script("ada", "hang_read")
        with pytest.raises(ErpUnreachable):
            client.read("orders", "4711")
    with clients.connect(agent, ended=stop) as client:
        client.login("secret")
        erp.script("ada", "hang_read")
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(client.read, "orders", "4711")
            wait_until(lambda: erp.calls["orders"] == 2, 30)
            client.end("timeout")
            with pytest.raises(Ended):
                reading.result(10)
        with pytest.raises(Ended):
            client.find("r-1")


def test_a_write_that_is_cancelled_is_awaited(agent: Agent, erp: Erp) -> None:
    erp.slow = 2
    with clients.connect(agent, ended=stop) as client:
        client.login("secret")
        erp.script("ada", "slow_write")
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(client.write, "submit-order", "r-1", body())
            wait_until(lambda: erp.calls["operations"] == 2, 30)  # the form, and what it sends
            client.end("cancelled")
            assert writing.result(30) == "4711"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_browser_that_dies_or_freezes_is_replaced(
    agent: Agent, erp: Erp, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(chromium, "CLOSE", 2.0)
    with clients.connect(agent, 5) as client:
        client.login("secret")
        before = [pid for pid, _mark in reaper.marked(reaper.owner())]
        assert before
        for pid in before:
            os.kill(pid, number)
        with pytest.raises(ErpUnreachable):
            client.read("orders", "4711")
    wait_until(lambda: not any(reaper.started(pid) for pid in before), 30)
    with clients.connect(agent) as client:
        client.login("secret")
        assert client.find("r-1") is None


def test_a_killed_process_leaves_no_browser(erp: Erp) -> None:
    """Also one that is frozen, and therefore does not notice the end of its process."""
    program = (
        "import os, sys, signal\n"
        "from operations.clients import chromium, reaper\n"
        "browser = chromium.Chromium()\n"
        "work = browser._lend('MAP * ~NOTFOUND')\n"
        "browser.run(work, 60)\n"
        "for pid, _ in list(reaper.marked(reaper.owner())): os.kill(pid, signal.SIGSTOP)\n"
        "print(reaper.owner(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with subprocess.Popen(
        [sys.executable, "-c", f"import django; django.setup()\n{program}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        mark = process.stdout.readline().strip()
        assert list(reaper.marked(mark))
        process.kill()
    wait_until(lambda: not list(reaper.marked(mark)), 30, message="no browser is left")


def test_another_origin_hears_nothing(
    agent: Agent, erp: Erp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by pictures, frames, scripts, sockets and beacons, nor while a name is looked up."""
    other = socket.create_server(("127.0.0.1", 0))
    heard: list[object] = []

    def listen() -> None:
        while True:
            try:
                heard.append(other.accept())
            except OSError:
                return

    threading.Thread(target=listen, daemon=True).start()
    port = other.getsockname()[1]
    place = f"127.0.0.1:{port}"
    rude = (
        f'<img src="http://{place}/a"><iframe src="http://{place}/b"></iframe>'
        f'<link rel="preconnect" href="http://{place}"><script>'
        f'try {{ new WebSocket("ws://{place}/c") }} catch (e) {{}}'
        f'navigator.sendBeacon("http://{place}/d");'
        f'fetch("http://localhost:{port}/e", {{mode: "no-cors"}}).catch(() => 0)'
        "</script>"
    )
    usual = pages.page
    monkeypatch.setattr(
        pages,
        "page",
        lambda kind, content="", *rest, **more: usual(kind, content + rude, *rest, **more),
    )
    with clients.connect(agent) as client:
        client.login("secret")
        assert client.find("r-1") is None
        erp.script("ada", "redirect")
        with pytest.raises(ErpUnreadable, match="redirected"):
            client.write("submit-order", "r-1", body())
    other.close()
    assert heard == []


def test_contexts_are_given_back_and_bounded(agent: Agent, erp: Erp) -> None:
    browser = chromium.mine()
    before = (browser.lent, browser.given_back)
    running, most, lock = 0, 0, threading.Lock()

    def work(number: int) -> None:
        nonlocal running, most
        with browser.context(erp.url):
            with lock:
                running += 1
                most = max(most, running)
            if number % 3 == 0:
                raise Ended
            with lock:
                running -= 1

    def quiet(number: int) -> None:
        nonlocal running
        try:
            work(number)
        except Ended:
            with lock:
                running -= 1

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(quiet, range(20)))
    assert most <= chromium.MOST
    assert browser.lent - before[0] == browser.given_back - before[1] == 20


def test_without_playwright_work_waits_and_a_check_says_so(
    agent: Agent, erp: Erp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from operations import checks

    assert checks.check_browser(databases=["default"]) == []
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    monkeypatch.setattr(chromium, "_mine", None)
    with pytest.raises(ErpUnreachable, match="no_browser"), clients.connect(agent):
        pass
    [found] = checks.check_browser(databases=["default"])
    assert found.id == "operations.W003" and "/nowhere/chromium" in found.msg
    Agent.objects.update(client=ClientKind.HTTP)
    assert checks.check_browser(databases=["default"]) == []
    assert checks.check_browser() == []

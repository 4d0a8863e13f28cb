"""A Chromium for the agents of this process: a thread with a loop of its own, and lent contexts.

Playwright's objects belong to the thread that has made them, its synchronous interface refuses to
work inside an event loop, and executors fork: the thread starts with its first use in a process.
Chromium itself reaches the ERP only, at addresses that ``jobs.http`` permits: redirects, WebSockets
and service workers pass by every handler of requests.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from jobs import http
from operations.clients import reaper
from operations.errors import ErpUnreachable

T = TypeVar("T")
EXECUTABLE = "/usr/bin/chromium"
MOST = 8
"""Contexts of a browser."""
LIFE = 3600.0
"""Seconds after which a browser is given to nobody any more."""
IDLE = 30.0
"""Seconds after which a browser that nobody uses ends."""
START, CLOSE = 30.0, 5.0
GRACE = 10.0
ARGUMENTS = (
    "--disable-quic", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-breakpad", "--no-proxy-server",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)  # fmt: skip


def executable() -> str:
    """Return the path of Chromium."""
    return os.environ.get("CHROMIUM") or EXECUTABLE


def problem() -> str:
    """Return why no browser can be started here; empty if one can."""
    if find_spec("playwright") is None:
        return "Playwright is not installed: pip install 'django-jobdesk[operations-browser]'"
    if not Path(executable()).exists():
        return f"there is no Chromium at {executable()}: install it, or set CHROMIUM"
    return ""


def rules(origin: str) -> str:
    """Return the rules of name resolution by which nothing but the ERP is reached."""
    found = urlsplit(origin)
    port = found.port or (443 if found.scheme == "https" else 80)
    host = f"[{found.hostname}]" if ":" in (found.hostname or "") else found.hostname
    address = http.resolve(origin)[0]
    address = f"[{address}]" if ":" in address else address
    return f"MAP {host}:{port} {address}:{port},MAP * ~NOTFOUND"


class _Browser:
    """A running Chromium, with the program that drives it."""

    def __init__(self, mark: str) -> None:
        self.mark, self.born, self.used = mark, time.monotonic(), time.monotonic()
        self.contexts = 0
        self._driver: Any = None
        self._browser: Any = None

    async def start(self, host_rules: str) -> None:
        from playwright.async_api import async_playwright

        self._driver = await async_playwright().start()
        self._browser = await self._driver.chromium.launch(
            executable_path=executable(),
            args=[*ARGUMENTS, f"--host-resolver-rules={host_rules}"],
            chromium_sandbox=os.geteuid() != 0,
            env={**os.environ, reaper.NAME: self.mark},
            handle_sigint=False, handle_sigterm=False, handle_sighup=False,
        )  # fmt: skip

    @property
    def is_fit(self) -> bool:
        """Whether it may be given to somebody new."""
        return self._browser.is_connected() and time.monotonic() - self.born < LIFE

    async def context(self) -> Any:
        return await self._browser.new_context(service_workers="block", accept_downloads=False)

    async def close(self, is_stuck: bool = False) -> None:
        """End it, by force where it does not obey."""
        if is_stuck:
            await asyncio.to_thread(reaper.end, self.mark)
        for part in (self._browser and self._browser.close, self._driver and self._driver.stop):
            if part:
                with suppress(Exception):
                    await asyncio.wait_for(part(), CLOSE)
        await asyncio.to_thread(reaper.end, self.mark)


class Chromium:
    """The browsers of this process: one that is given to agents, and older ones until the end."""

    def __init__(self) -> None:
        self.lent = self.given_back = 0
        self._slots = threading.BoundedSemaphore(MOST)
        self._mark, self._numbers = reaper.owner(), itertools.count()
        self._current: dict[str, _Browser] = {}
        self._all: set[_Browser] = set()
        self._loop = asyncio.new_event_loop()
        self._starting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chromium", daemon=True)
        self._thread.start()
        reaper.kill([pid for pid, _mark in reaper.orphans()])
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", reaper.__file__, f"{self._mark}."], stdin=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work on the thread of the browser."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Do work on the thread of the browser; raise TimeoutError when it takes too long."""
        return self.begin(asyncio.wait_for(work, seconds)).result(seconds + GRACE)

    @contextmanager
    def context(self, origin: str) -> Iterator[Any]:
        """Lend a context without cookies, for one origin."""
        if not self._slots.acquire(timeout=START):
            raise ErpUnreachable("browser_busy")
        try:
            host_rules = rules(origin)
            browser, context = self.run(self._lend(host_rules), START)
            self.lent += 1
            try:
                yield context
            finally:
                self.given_back += 1
                with suppress(Exception):
                    self.run(self._take_back(browser, context), 6 * CLOSE)
        finally:
            self._slots.release()

    async def _lend(self, host_rules: str) -> tuple[_Browser, Any]:
        async with self._starting:
            browser = self._current.get(host_rules)
            if browser is None or not browser.is_fit:
                browser = _Browser(f"{self._mark}.{next(self._numbers)}.")
                self._all.add(browser)
                try:
                    await browser.start(host_rules)
                except BaseException:
                    await self._drop(browser)
                    raise
                self._current[host_rules] = browser
            browser.contexts += 1
        try:
            return browser, await browser.context()
        except BaseException:  # the browser or its driver has died
            await self._drop(browser, is_stuck=True)
            await self._release(browser)
            raise

    async def _take_back(self, browser: _Browser, context: Any) -> None:
        try:
            await asyncio.wait_for(context.close(), CLOSE)
        except Exception:  # it hangs, or has died: its other contexts are in the same trouble
            await self._drop(browser, is_stuck=True)
        await self._release(browser)

    async def _release(self, browser: _Browser) -> None:
        browser.contexts -= 1
        browser.used = time.monotonic()
        if not browser.contexts:
            if browser in self._all and not browser.is_fit:
                await self._drop(browser)
            else:
                self._loop.call_later(IDLE, self._end_idle, browser)

    def _end_idle(self, browser: _Browser) -> None:
        is_idle = not browser.contexts and time.monotonic() - browser.used >= IDLE - 1
        if is_idle and browser in self._all:
            self._ending = self._loop.create_task(self._drop(browser))

    async def _drop(self, browser: _Browser, is_stuck: bool = False) -> None:
        self._all.discard(browser)
        for host_rules, current in list(self._current.items()):
            if current is browser:
                del self._current[host_rules]
        await browser.close(is_stuck)

    async def _drop_all(self) -> None:
        for browser in list(self._all):
            await self._drop(browser)

    def close(self) -> None:
        """End the browsers, the thread and the program that watches over them."""
        with suppress(Exception):
            self.run(self._drop_all(), 4 * CLOSE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE)
        if not self._thread.is_alive():
            self._loop.close()
        if self._reaper.stdin is not None:
            self._reaper.stdin.close()
        self._reaper.wait(2 * CLOSE)


_mine: Chromium | None = None
_lock = threading.Lock()


def mine() -> Chromium:
    """Return the browsers of this process; raise ErpUnreachable where there can be none."""
    global _mine
    with _lock:
        if _mine is None:
            if why := problem():
                raise ErpUnreachable("no_browser", why)
            _mine = Chromium()
            atexit.register(close)
        return _mine


def close() -> None:
    """End the browsers of this process; the next use starts others."""
    global _mine
    with _lock:
        found, _mine = _mine, None
    if found is not None:
        found.close()


def _forget() -> None:
    """Leave the browsers to the process that has started them."""
    global _mine, _lock
    _mine, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)

"""The ERP by its pages, in a Chromium: for an ERP that has no interface."""

from __future__ import annotations

import asyncio
import base64
import itertools
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from jobs import http
from operations.clients import chromium, pages
from operations.clients.contract import DOCUMENT_LIMIT, Found, error_of, id_of
from operations.config import settings
from operations.errors import ErpRefused, ErpUnreachable, ErpUnreadable, SessionEnded
from operations.models import Agent

T = TypeVar("T")
AHEAD = 16
"""Pieces of an export that are read before they are used."""


class BrowserErp:
    """A session of an agent. ``ended`` is called when a call was ended by ``end``, and raises."""

    def __init__(
        self, browser: chromium.Chromium, context: Any, login: str, seconds: float, limit: int,
        ended: Callable[[], object],
    ) -> None:  # fmt: skip
        self._browser, self._context, self._login = browser, context, login
        self._seconds, self._limit, self._ended = seconds, limit, ended
        self._origin = settings().ERP_URL.rstrip("/")
        self._page: Any = None
        self._goes_to, self._names = "", itertools.count()
        self._is_ended = self._is_writing = False

    def end(self, reason: str) -> None:
        """End the call under way; a write that is cancelled is awaited."""
        if self._is_writing and reason in ("cancelled", "shutdown"):
            return
        self._is_ended = True
        self._browser.begin(self._close())

    def login(self, password: str) -> None:
        """Log in, which ends every other session of the agent."""
        self._open("login")
        self._submit({"login": self._login, "password": password}, "home")

    def find(self, reference: str) -> Found | None:
        """Search for a write by its reference; raise ErpRefused where it cannot be searched."""
        found = self._open(f"find?reference={quote(reference)}", "found", "nothing")
        return Found(id_of(found)) if found["page"] == "found" else None

    def write(self, type: str, reference: str, data: dict[str, Any]) -> str:
        """Carry out a write and return the id of what it has made or changed."""
        form, values = pages.form_of(type, data)
        try:
            self._open(f"operations/{form}", "form")
            self._fill({"reference": reference, **values})
        except (ErpUnreachable, ErpUnreadable) as error:
            raise error from pages.NotSent("the form was not sent")
        self._is_writing = True
        try:
            return id_of(self._send("saved"))
        finally:
            self._is_writing = False

    def read(self, what: str, id: str) -> dict[str, Any] | None:
        """Return an order or a customer, or None if it does not exist."""
        try:
            found = self._open(f"{what}/{quote(id, safe='')}", what)
        except ErpRefused as error:
            if error.code == "not_found":
                return None
            raise
        return pages.shown(found)

    def document(self, kind: str, order: str, number: str) -> bytes:
        """Download a PDF."""
        path = "/".join(quote(part, safe="") for part in (kind, order, number))
        found = self._open(f"documents/{path}", "download")
        pieces = self._fetch(found["link"], DOCUMENT_LIMIT, "document_too_large")
        content = b"".join(pieces)
        if not content.startswith(b"%PDF-"):
            raise ErpUnreadable("not_a_pdf")
        return content

    def export(self, type: str) -> Iterator[bytes]:
        """Download an export in pieces."""
        found = self._open(f"exports/{type}", "download")
        yield from self._fetch(found["link"], self._limit, "export_too_large")

    # ---- pages

    def _open(self, path: str, *kinds: str) -> dict[str, Any]:
        return self._call(self._goto(path), *(kinds or ("login",)))

    def _submit(self, values: dict[str, str], *kinds: str) -> dict[str, Any]:
        self._fill(values)
        return self._send(*kinds)

    def _fill(self, values: dict[str, str]) -> None:
        missing = self._do(self._page.evaluate(pages.FILL, values))
        if missing:
            raise ErpUnreadable("page_changed", f"the form has no {', '.join(missing)}")

    def _send(self, *kinds: str) -> dict[str, Any]:
        return self._call(self._click(), *kinds)

    def _call(self, work: Coroutine[Any, Any, Any], *kinds: str) -> dict[str, Any]:
        """Return the page that comes; raise the error that it shows."""
        status, found = self._do(work)
        if found is None:
            # A page that was cut off says with its status that the ERP is out of order.
            if status >= 400:
                raise error_of(status, "", "")
            raise ErpUnreadable("unreadable_answer")
        if found["page"] == "login" and "login" not in kinds and found["code"] != "login_refused":
            raise SessionEnded("session_ended", found["words"])
        if found["code"] or status >= 400:
            raise error_of(status, found["code"], found["words"])
        if found["page"] not in kinds:
            raise ErpUnreadable("page_changed", f"the page is {found['page']!r}")
        return dict(found)

    async def _goto(self, path: str) -> tuple[int, Any]:
        if self._page is None:
            self._page = await self._context.new_page()
            self._page.on("request", self._note)
        answer = await self._page.goto(f"{self._origin}/ui/{path}", wait_until="load")
        return answer.status, await self._page.evaluate(pages.READ)

    async def _click(self) -> tuple[int, Any]:
        async with self._page.expect_navigation(wait_until="load", timeout=0) as coming:
            await self._page.evaluate(pages.SEND)
        answer = await coming.value
        return answer.status, await self._page.evaluate(pages.READ)

    def _note(self, request: Any) -> None:
        if request.is_navigation_request() and request.frame == self._page.main_frame:
            self._goes_to = request.url

    # ---- downloads

    def _fetch(self, link: str, limit: int, too_large: str) -> Iterator[bytes]:
        pieces: queue.Queue[bytes | None] = queue.Queue()
        is_over = threading.Event()

        async def take(source: object, text: str) -> None:
            pieces.put(base64.b64decode(text))
            while pieces.qsize() > AHEAD and not is_over.is_set():
                await asyncio.sleep(0.01)

        async def download() -> Any:
            name = f"piece{next(self._names)}"
            await self._page.expose_binding(name, take)
            return await self._page.evaluate(pages.FETCH, [self._url(link), name, limit])

        done = self._browser.begin(asyncio.wait_for(download(), self._seconds))
        done.add_done_callback(lambda future: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
        finally:
            is_over.set()
            done.cancel()  # does nothing unless the caller has stopped
        found = self._result(done)
        if found["tooLarge"]:
            raise ErpUnreadable(too_large)
        if found["status"] != 200:
            raise error_of(found["status"], found["code"], found["words"])

    def _url(self, link: str) -> str:
        url = f"{self._origin}{link}" if link.startswith("/") else link
        one, other = urlsplit(url), urlsplit(self._origin)
        if (one.scheme, one.netloc) != (other.scheme, other.netloc):
            raise ErpUnreadable("page_changed", "the download is elsewhere")
        return url

    # ---- the thread of the browser

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_ended:
            work.close()
            self._ended()
            raise ErpUnreachable("unreachable")
        found: T = self._result(self._browser.begin(asyncio.wait_for(work, self._seconds)))
        return found

    def _result(self, done: Any) -> Any:
        """Return what the browser has done; what it complains about is an error of the ERP."""
        try:
            return done.result(self._seconds + chromium.GRACE)
        except Exception as error:
            self._page = None  # it may still be on its way somewhere
            if self._is_ended:
                self._ended()
            if self._goes_to and not self._goes_to.startswith(f"{self._origin}/"):
                self._goes_to = ""
                raise ErpUnreadable("redirected") from None
            raise ErpUnreachable("unreachable", str(error)) from None

    async def _close(self) -> None:
        with suppress(Exception):
            await self._context.close()


@contextmanager
def connect(
    agent: Agent, seconds: float, limit: int, ended: Callable[[], object]
) -> Iterator[BrowserErp]:  # fmt: skip
    """Lend a context of the browser to an agent; no call of it lasts longer than ``seconds``."""
    browser = chromium.mine()
    lent = browser.context(settings().ERP_URL)
    try:
        context = lent.__enter__()
    except http.HttpError as error:
        is_blocked = isinstance(error, http.Blocked)
        raise ErpUnreachable("blocked_address" if is_blocked else "unreachable") from error
    except ErpUnreachable:
        raise
    except Exception as error:
        raise ErpUnreachable("no_browser", str(error)) from None
    try:
        yield BrowserErp(browser, context, agent.erp_login, seconds, limit, ended)
    finally:
        lent.__exit__(None, None, None)

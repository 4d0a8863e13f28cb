"""The calls of connectors: one breaker per service and host, and errors as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import IO, Any, TypeVar

import jobs
from jobs import http
from publisher import config
from publisher.clock import now
from publisher.connectors import tokens
from publisher.connectors.base import Run, moment_of
from publisher.connectors.media import TOTAL
from publisher.errors import ProviderError, Unclear
from publisher.models import Account

Judge = Callable[[int, Mapping[str, Any]], ProviderError | Unclear]
Sign = Callable[[Account], Mapping[str, str]]
MOST_PAGES = 100
MOST_WAIT = 86_400.0
OPEN_FOR = 60.0
"""Seconds without calls to a host after five failures in a row."""
T = TypeVar("T")


class Api:
    """A provider's API, called for the account of a run."""

    def __init__(
        self,
        run: Run,
        service: str,
        base: str,
        judge: Judge,
        sign: Sign,
        refusal: Callable[[Any], ProviderError | None] = lambda body: None,
    ) -> None:
        self._run, self._judge, self._sign, self._refusal = run, judge, sign, refusal
        self._base = base.rstrip("/")
        host = http.URL(self._base).netloc.decode()
        self._breaker = jobs.breaker(f"publisher:{service}:{host}"[:200], 5, OPEN_FOR)
        total = config.settings().timeout(run.row.channel)
        self._client = run.ctx.enter(http.client(total=total))
        self._uploads: http.Client | None = None

    def get(self, path: str, **params: Any) -> Any:
        """Return what is at a path."""
        return self.call("GET", path, params=params)

    def post(self, path: str, **how: Any) -> Any:
        """Return the answer to a POST of ``json`` or ``data``."""
        return self.call("POST", path, **how)

    def call(self, method: str, path: str, **how: Any) -> Any:
        """Return the decoded answer; raise ProviderError, Unclear or HttpError.

        A token that the provider calls expired is refreshed, once.
        """
        return self._renewing(lambda: self._decoded(self._signed(method, path, how)))

    def opened(self, path: str, **how: Any) -> http.Response:
        """Return the answer to a POST whose headers matter."""

        def call() -> http.Response:
            answer = self._signed("POST", path, how)
            self._decoded(answer, empty=True)
            return answer

        return self._renewing(call)

    def raw(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | IO[bytes],
        sign: bool = False,
    ) -> http.Response:  # fmt: skip
        """Return the answer to a request to an address that the provider has handed out."""
        signed = self._sign(self._run.account) if sign else {}
        answer = self._send(method, url, {**headers, **signed}, {"content": content})
        if answer.status_code >= 500:
            raise Unclear(f"status {answer.status_code}")
        if answer.status_code == 429:
            raise _later(answer)
        return answer

    def _renewing(self, call: Callable[[], T]) -> T:
        account = self._run.account
        tokens.keep_fresh(account)
        try:
            return call()
        except ProviderError as error:
            if error.action != "token" or not tokens.renew(account):
                raise
        return call()

    def _signed(self, method: str, path: str, how: Mapping[str, Any]) -> http.Response:
        headers = {**how.get("headers", {}), **self._sign(self._run.account)}
        more = {name: value for name, value in how.items() if name != "headers"}
        return self._send(method, f"{self._base}/{path}", headers, more)

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        how: Mapping[str, Any],
    ) -> http.Response:
        client = self._uploader() if {"content", "files"} & how.keys() else self._client
        try:
            with self._breaker:
                answer = client.request(method, url, headers=headers, **how)
                if answer.status_code in (502, 503, 504):
                    answer.raise_for_status()
        except http.HTTPStatusError as error:
            raise Unclear(f"status {error.response.status_code}") from error
        return answer

    def _uploader(self) -> http.Client:
        """Return a client that waits for longer."""
        if self._uploads is None:
            self._uploads = self._run.ctx.enter(http.client(total=TOTAL))
        return self._uploads

    def _decoded(self, answer: http.Response, *, empty: bool = False) -> Any:
        status = answer.status_code
        try:
            found = answer.json()
        except ValueError:
            found = None
        if 200 <= status < 300:
            if empty:
                return found
            if not isinstance(found, dict | list):
                raise Unclear(f"status {status} with an unreadable answer")
            if (refused := self._refusal(found)) is not None:
                raise refused
            return found
        if status >= 500:
            raise Unclear(f"status {status}")
        if status == 429:
            raise _later(answer)
        raise self._judge(status, found if isinstance(found, dict) else {})


def _later(answer: http.Response) -> ProviderError:
    return ProviderError("later", "429", http.retry_after(answer) or _until_reset(answer) or 60)


def _until_reset(answer: http.Response) -> float:
    """Return the seconds until a limit is renewed, as services without Retry-After say it."""
    for name in ("x-rate-limit-reset", "x-ratelimit-reset", "ratelimit-reset"):
        text = answer.headers.get(name, "").strip()
        if re.fullmatch(r"[0-9]{9,11}", text):
            moment = datetime.fromtimestamp(int(text), UTC)
        elif (found := moment_of(text)) is not None:
            moment = found
        else:
            continue
        return min(max((moment - now()).total_seconds(), 1), MOST_WAIT)
    return 0


def bearer(account: Account) -> Mapping[str, str]:
    """Sign a call with the token of the account."""
    return {"Authorization": f"Bearer {account.token}"}


def id_of(answer: Any, name: str = "id") -> str:
    """Return the id in an answer; raise Unclear without one."""
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, str | int) or isinstance(found, bool) or not str(found):
        raise Unclear("the answer has no id")
    return str(found)[:191]


def rows_of(answer: Any, name: str) -> list[dict[str, Any]]:
    """Return the rows of a list in an answer."""
    found = answer.get(name, []) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise Unclear("the answer has no list")
    return [row for row in found if isinstance(row, dict)]

"""A small client of the REST API, for programs that are not part of the project.

::

    from jobs.client import Client

    with Client("https://example.org/api/v1", key=os.environ["JOBS_KEY"]) as desk:
        made = desk.enqueue("email.send", {"outbox_id": 7}, tenant="acme")
        print(desk.wait(made["id"], timeout=60))

Needs httpx and nothing else, no Django settings either. Requests that failed on the way, or that
were asked to come later, are repeated with growing pauses, as the server's Retry-After says; each
write carries an Idempotency-Key, the same for all its repetitions, so that it happens once.
"""

from __future__ import annotations

import email.utils
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

__all__ = ["ApiError", "Client", "Conflict", "Denied", "Invalid", "JobFailed", "Limited",
           "NotFound", "Unauthorized", "Unavailable", "WaitTimeout"]  # fmt: skip

Json = dict[str, Any]
Id = uuid.UUID | str
FINAL = frozenset({"succeeded", "failed", "cancelled", "expired"})
BULK_OVER = frozenset({"done", "stopped", "aborted"})
_REPEATED = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass
class ApiError(Exception):
    """The server's answer to a request that it did not carry out, as its problem+json says."""

    status: int
    code: str = ""
    detail: str = ""
    request_id: str = ""
    errors: list[Json] = field(default_factory=list)
    body: Json = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        text = f"{self.status} {self.code}: {self.detail}".rstrip(": ")
        return f"{text} (request {self.request_id})" if self.request_id else text


class Unauthorized(ApiError):
    """401: the key is missing, wrong, expired or revoked."""


class Denied(ApiError):
    """403: the key lacks a permission."""


class NotFound(ApiError):
    """404: there is no such thing, or none that the key may see."""


class Conflict(ApiError):
    """409 or 412: the present state does not allow it, or has changed."""


class Invalid(ApiError):
    """400 or 422: the request is wrong; ``errors`` point at what is."""


class Limited(ApiError):
    """429: too many requests, also after all repetitions."""


class Unavailable(ApiError):
    """The server could not be reached, or failed, also after all repetitions."""


class JobFailed(Exception):
    """The job that was waited for has ended otherwise than by success."""

    def __init__(self, job: Json) -> None:
        self.job = job
        super().__init__(f"job {job['id']} {job['state']}: {job.get('error') or job.get('reason')}")


class WaitTimeout(Exception):
    """The job that was waited for has not ended in time."""


_ERRORS: Mapping[int, type[ApiError]] = {
    400: Invalid, 401: Unauthorized, 403: Denied, 404: NotFound, 409: Conflict, 412: Conflict,
    422: Invalid, 428: Invalid, 429: Limited,
}  # fmt: skip


class Client:
    """Speaks with the API at ``url``, as the program that the key belongs to."""

    def __init__(
        self,
        url: str,
        *,
        key: str,
        timeout: float = 10.0,
        repeats: int = 5,
        longest_pause: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._repeats, self._longest = repeats, longest_pause
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {key}", "Accept": "application/json"},
            timeout=timeout,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Its connections are closed."""
        self._http.close()

    # ---- jobs

    def enqueue(self, kind: str, payload: Mapping[str, Any], **options: Any) -> Json:
        """The job as it was taken: its id, and whether an earlier one has its unique key."""
        body = {"kind": kind, "payload": dict(payload), **options}
        return self._post("/jobs", body)

    def enqueue_many(self, jobs: Sequence[Mapping[str, Any]]) -> list[str]:
        """The ids of up to a thousand jobs, enqueued all or none."""
        ids: list[str] = self._post("/jobs/batch", {"jobs": [dict(job) for job in jobs]})["ids"]
        return ids

    def job(self, job_id: Id, *include: str) -> Json:
        """The job as it is now, with ``payload``, ``attempts``, ``history`` where included."""
        return self._get(f"/jobs/{job_id}", include=list(include))

    def jobs(self, query: str = "", *, limit: int = 200) -> Iterator[Json]:
        """Every job that the query finds, newest first, page by page."""
        return self._pages("/jobs", query=query, limit=limit)

    def result(self, job_id: Id) -> Any:
        """What its handler returned; None before it has."""
        return self._get(f"/jobs/{job_id}/result")["result"]

    def explain(self, job_id: Id) -> Json:
        """Why the job does not run, or what became of it."""
        return self._get(f"/jobs/{job_id}/explain")

    def wait(self, job_id: Id, *, timeout: float = 60.0, interval: float = 0.2) -> Any:
        """The job's result, once it has succeeded; raises JobFailed or WaitTimeout."""
        deadline = time.monotonic() + timeout
        while (job := self.job(job_id))["state"] not in FINAL:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"job {job_id} is {job['state']} after {timeout:g} s")
            time.sleep(min(interval, left))
            interval = min(interval * 1.5, 5.0)
        if job["state"] != "succeeded":
            raise JobFailed(job)
        return self.result(job_id)

    def retry(self, job_id: Id, *, reason: str = "", attempts: int = 1) -> Json:
        """The same job runs again."""
        return self._post(f"/jobs/{job_id}/retry", {"reason": reason, "attempts": attempts})

    def replay(self, job_id: Id, *, reason: str = "", **changes: Any) -> str:
        """The id of a new job made of the old one."""
        new: str = self._post(f"/jobs/{job_id}/replay", {"reason": reason, **changes})["id"]
        return new

    def cancel(self, job_id: Id, *, reason: str = "", **options: Any) -> Json:
        """A waiting job is cancelled; a running one is asked to stop."""
        return self._post(f"/jobs/{job_id}/cancel", {"reason": reason, **options})

    # ---- batches, dead letters, bulk operations

    def batch(self, name: str = "", **options: Any) -> Json:
        """A new batch, which takes jobs by their ``batch`` until it is sealed."""
        return self._post("/batches", {"name": name, **options})

    def seal(self, batch_id: Id) -> Json:
        """The batch takes no more jobs."""
        return self._post(f"/batches/{batch_id}/seal", {})

    def batch_progress(self, batch_id: Id) -> Json:
        """How far the batch is."""
        return self._get(f"/batches/{batch_id}")

    def dead_letters(self, *, limit: int = 200, **filters: Any) -> Iterator[Json]:
        """Every open dead letter, newest first, or those of another ``state``."""
        return self._pages("/dead-letters", limit=limit, **filters)

    def retry_letter(self, number: int, *, reason: str = "", attempts: int = 1) -> Json:
        """The failed job runs again; its dead letter is closed."""
        body = {"reason": reason, "attempts": attempts}
        return self._post(f"/dead-letters/{number}/retry", body)

    def replay_letter(self, number: int, *, reason: str = "", **changes: Any) -> str:
        """The id of a new job made of the failed one; its dead letter is closed."""
        path = f"/dead-letters/{number}/replay"
        new: str = self._post(path, {"reason": reason, **changes})["id"]
        return new

    def discard_letter(self, number: int, *, reason: str) -> Json:
        """Nothing is to be done about the failed job; its dead letter is closed."""
        return self._post(f"/dead-letters/{number}/discard", {"reason": reason})

    def outbox(self, *, limit: int = 200, **filters: Any) -> Iterator[Json]:
        """Every event that is not published yet, or those of one ``state``."""
        return self._pages("/outbox", limit=limit, **filters)

    def preview(self, action: str, **targets: Any) -> Json:
        """What a bulk operation would do, and the token that confirms it."""
        return self._post("/bulk-operations/preview", {"action": action, **targets})

    def bulk(self, action: str, *, reason: str, **targets: Any) -> Json:
        """A bulk operation has begun; a query needs the token of its preview."""
        return self._post("/bulk-operations", {"action": action, "reason": reason, **targets})

    def bulk_and_wait(
        self, action: str, query: str, *, reason: str, timeout: float = 600.0,
        interval: float = 0.5, **options: Any,
    ) -> Json:  # fmt: skip
        """What a bulk operation over a query came to, looked at first; raises WaitTimeout."""
        of_preview = {name: options[name] for name in ("options",) if name in options}
        token = self.preview(action, query=query, **of_preview)["token"]
        made = self.bulk(action, query=query, reason=reason, token=token, **options)
        return self.wait_bulk(made["id"], timeout=timeout, interval=interval)

    def wait_bulk(self, bulk_id: Id, *, timeout: float = 600.0, interval: float = 0.5) -> Json:
        """The bulk operation, once it is over; raises WaitTimeout."""
        deadline = time.monotonic() + timeout
        while (seen := self.bulk_progress(bulk_id))["state"] not in BULK_OVER:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeout(
                    f"bulk operation {bulk_id} is {seen['state']} after {timeout:g} s"
                )
            time.sleep(min(interval, left))
        return seen

    def bulk_progress(self, bulk_id: Id) -> Json:
        """How far the bulk operation is."""
        return self._get(f"/bulk-operations/{bulk_id}")

    def abort_bulk(self, bulk_id: Id, *, reason: str) -> Json:
        """The bulk operation does nothing more."""
        return self._post(f"/bulk-operations/{bulk_id}/abort", {"reason": reason})

    # ---- requests

    def request(
        self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None
    ) -> Any:
        """What the API answers, for whatever has no method here; raises an ApiError."""
        headers = {} if method == "GET" else {"Idempotency-Key": str(uuid.uuid4())}
        for attempt in range(self._repeats + 1):
            try:
                response = self._http.request(
                    method, path, json=body, params=params, headers=headers
                )
            except httpx.TransportError as error:
                if attempt == self._repeats:
                    raise Unavailable(0, "unreachable", str(error)) from error
                self._pause(attempt, None)
                continue
            if response.status_code in _REPEATED and attempt < self._repeats:
                self._pause(attempt, response.headers.get("Retry-After"))
                continue
            return _answer(response)
        raise AssertionError("unreachable")

    def _get(self, path: str, **params: Any) -> Json:
        found: Json = self.request("GET", path, params=params)
        return found

    def _post(self, path: str, body: Json) -> Json:
        found: Json = self.request("POST", path, body)
        return found

    def _pages(self, path: str, **params: Any) -> Iterator[Json]:
        while True:
            found = self._get(path, **params)
            yield from found["data"]
            if found["page"]["next"] is None:
                return
            params["cursor"] = found["page"]["next"]

    def _pause(self, attempt: int, told: str | None) -> None:
        own = min(0.2 * 2**attempt, self._longest) * random.uniform(0.5, 1.0)
        time.sleep(min(max(own, _seconds(told)), self._longest))


def _seconds(told: str | None) -> float:
    """The pause that a Retry-After asks for, which is a number or a date."""
    if not told:
        return 0.0
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(told).timestamp() - time.time())
    except ValueError:
        return 0.0


def _answer(response: httpx.Response) -> Any:
    try:
        body = response.json() if response.content else None
    except ValueError:
        body = None
    if response.is_success:
        return body
    told = body if isinstance(body, dict) else {}
    status = response.status_code
    error = _ERRORS.get(status, Unavailable if status >= 500 else ApiError)
    raise error(
        status,
        str(told.get("code", "")),
        str(told.get("detail", "")),
        str(told.get("request_id", "")),
        list(told.get("errors", ())),
        told,
    )

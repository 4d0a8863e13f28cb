"""Models of other hosts: OpenAI, servers that speak like it, and Azure OpenAI."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import jobs
from fileproc import config
from fileproc.errors import FileError
from jobs import http

TOTAL = 60.0
"""Seconds for a call of many texts."""
MOST_BYTES = 64 * 1024**2
LARGEST = 65504.0
"""The largest half-precision number."""
PAUSE = 20.0
"""Seconds until the next call after an answer that says "too many" and not until when."""
meter = jobs.meter("fileproc.embedder", config.settings().EMBEDDER_RATE, wait=5)
"""Calls of all workers; closed while the provider asks for patience."""


def embed(texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of texts.

    Raises Unavailable for an outage or a fault of the installation, FileError for a text that the
    model refuses, and MeterFull or RateLimited when a later call would be welcome.
    """
    meter.take()
    answer = _call(texts, TOTAL)
    if answer.status_code in (400, 413, 422):
        return _of_halves(texts)
    if answer.status_code in (429, 503) and (wait := _wait(answer)):
        meter.close(wait)
        raise jobs.RateLimited(wait)
    return _vectors(answer, len(texts))


def of_question(text: str, patience: float) -> bytes:
    """Return the vector of a question; raise Unavailable if that takes too long."""
    return _vectors(_call([text], patience), 1)[0]


def _of_halves(texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of texts that were refused together: perhaps they are too many."""
    if len(texts) == 1:
        raise FileError("EMBEDDER_REFUSED")
    half = len(texts) // 2
    return embed(texts[:half]) + embed(texts[half:])


def _wait(answer: http.Response) -> float:
    asked = http.retry_after(answer)
    if asked is None:
        return PAUSE if answer.status_code == 429 else 0.0
    return min(max(asked, 1.0), 3600.0)


def _call(texts: Sequence[str], total: float) -> http.Response:
    from fileproc.embedding import Unavailable

    settings = config.settings()
    url, name, secret = settings.EMBEDDER_URL.rstrip("/"), settings.EMBEDDER_MODEL, settings.secret
    body: dict[str, Any] = {"input": list(texts), "encoding_format": "float"}
    if settings.EMBEDDER == "azure":
        version = settings.EMBEDDER_API_VERSION
        url = f"{url}/openai/deployments/{name}/embeddings?api-version={version}"
        headers = {"api-key": secret}
    else:
        url, body["model"] = f"{url}/embeddings", name
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    if name.startswith("text-embedding-3"):  # others have a fixed length and refuse the member
        body["dimensions"] = settings.EMBEDDER_DIMENSIONS
    try:
        with http.client(total=total, step=total, max_bytes=MOST_BYTES, headers=headers) as client:
            return client.post(url, json=body)
    except http.HttpError as error:
        raise Unavailable(str(error)) from None


def _vectors(answer: http.Response, count: int) -> list[bytes]:
    """Return the vectors of an answer, of which nothing is taken for granted."""
    from fileproc.embedding import Unavailable

    if answer.status_code != 200:
        # What the provider says may repeat the text or the key.
        raise Unavailable(f"the embedding model answered with status {answer.status_code}")
    try:
        items = sorted(answer.json()["data"], key=lambda one: int(one["index"]))
        if [one["index"] for one in items] != list(range(count)):
            raise ValueError("index")
        return [_packed(one["embedding"]) for one in items]
    except (ValueError, KeyError, TypeError, AttributeError, struct.error):
        raise Unavailable("the embedding model answered with something else than vectors") from None


def _packed(numbers: Any) -> bytes:
    from fileproc.embedding import Unavailable

    wanted = config.settings().EMBEDDER_DIMENSIONS
    if len(numbers) != wanted:
        raise Unavailable(
            f"the embedding model returned {len(numbers)} dimensions instead of the "
            f"{wanted} of EMBEDDER_DIMENSIONS"
        )
    if not all(math.isfinite(one) and abs(one) <= LARGEST for one in numbers):
        raise ValueError("number")
    return struct.pack(f"<{wanted}e", *numbers)

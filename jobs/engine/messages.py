"""What passes between an executor and an isolated job's process: the claim, and how it ended.

As JSON, and read with care: a process whose memory was overwritten may send anything. It can settle
its own job in a wrong way, and do nothing else.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any
from uuid import UUID

from jobs import redacted
from jobs.engine.admission import Closing
from jobs.engine.claims import Claim, Ended, Success
from jobs.events import Message
from jobs.outcomes import Fault, Move
from jobs.states import JobState


class BadMessage(ValueError):
    """This is not what the other side sends."""


def pack_claim(claim: Claim) -> bytes:
    """Return the claim as text."""
    return _dumps({f.name: getattr(claim, f.name) for f in fields(Claim)})


def unpack_claim(text: bytes) -> Claim:
    """Return the claim that was packed."""
    sent = json.loads(text)
    return Claim(**{**sent, "id": UUID(sent["id"]), "token": UUID(sent["token"])})


def pack_result(result: Success | Ended | None) -> bytes:
    """Return what became of the attempt as text; of a settled one, only that it is settled."""
    if isinstance(result, Success):
        messages = [asdict(message) for message in result.messages]
        return _dumps({"result": result.result, "messages": messages, "seconds": result.seconds})
    if isinstance(result, Ended):
        fault = result.fault
        return _dumps(
            {
                "move": asdict(result.move),
                "fault": fault and [fault.error_class, fault.message, fault.traceback],
                "closing": result.closing and asdict(result.closing),
                "ending": result.ending,
                "lines": list(result.lines),
            }
        )
    return _dumps({"settled": True})


def unpack_result(text: bytes, claim: Claim) -> Success | Ended | None:
    """Return what became of the claim; raises BadMessage where that cannot be read."""
    try:
        sent = json.loads(text)
        if "result" in sent:
            return _success(sent, claim)
        if "move" in sent:
            return _ended(sent, claim)
        if sent == {"settled": True}:
            return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadMessage(f"it cannot be read: {type(error).__name__}") from error
    raise BadMessage("it is empty")


def _success(sent: dict[str, Any], claim: Claim) -> Success:
    messages = tuple(
        Message(**{**each, "id": UUID(each["id"]), "text": _json(each["text"])})
        for each in sent["messages"]
    )
    return Success(claim, _json(sent["result"]), messages, float(sent["seconds"]))


def _ended(sent: dict[str, Any], claim: Claim) -> Ended:
    move = sent["move"]
    fault = None
    if sent["fault"]:
        name, message, trace = map(_text, sent["fault"])
        fault = Fault(name, message, trace, redacted.rebuilt(name, message))
    return Ended(
        claim.id,
        claim.token,
        claim.kind,
        Move(**{**move, "state": JobState(move["state"])}),
        fault,
        Closing(**sent["closing"]) if sent["closing"] else None,
        _text(sent["ending"]),
        tuple(map(_text, sent["lines"])),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _json(value: object) -> str:
    text = _text(value)
    json.loads(text)  # it becomes a part of longer texts
    return text


def _dumps(value: dict[str, Any]) -> bytes:
    return json.dumps(value, default=str, ensure_ascii=True).encode()

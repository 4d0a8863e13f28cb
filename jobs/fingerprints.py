"""One short mark for errors that are the same but for their numbers, ids and texts."""

from __future__ import annotations

import hashlib
import re

_VARIABLE = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]+|\b[0-9a-fA-F]{12,}\b|'[^']*'|\"[^\"]*\"|\d+"
)
_LAST_FRAME = re.compile(r'File "([^"]+)", line \d+, in (\S+)')


def fingerprint(error_class: str, message: str, traceback: str = "") -> str:
    """The same 16 characters for the same error at the same place, in jobs of whatever kind."""
    frames = _LAST_FRAME.findall(traceback)
    place = ":".join(frames[-1]) if frames else ""
    normal = " ".join(_VARIABLE.sub("#", message).split())[:300]
    text = "\x1f".join((error_class, normal, place))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]

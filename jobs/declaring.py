"""Things that are declared by a name, anywhere, as long as all say the same about them."""

from __future__ import annotations

import sys

from jobs.errors import JobsError

_KNOWN: dict[tuple[str, str], tuple[str, str]] = {}


def agree(what: str, name: str, said: str, error: type[JobsError]) -> None:
    """Raise the error where another module declares the name differently.

    Only declarations of modules count, by the caller's caller: what a function makes as it
    runs may depend on settings, and is not known at the start.
    """
    frame = sys._getframe(2)
    if frame.f_code.co_name != "<module>":
        return
    place = f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno}"
    known, where = _KNOWN.setdefault((what, name), (said, place))
    if where == place:  # loaded once more, and perhaps edited
        _KNOWN[what, name] = (said, place)
    elif known != said:
        raise error(f"{what} {name!r} is declared twice: {known} in {where}, and {said} in {place}")

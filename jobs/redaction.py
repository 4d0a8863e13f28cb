"""Redaction: what leaves the process for logs, events, errors and pages, without anybody's secrets.

Pure functions; nothing here asks the database. Three things are hidden: values under telling
names (``password``, ``api_key``, ``cpf`` …), what looks like a secret or like personal data in any
text, and the very values of the job that is running, where its payload says they are sensitive.
What could forge a line of a log or steer a terminal is made visible instead.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from jobs import jsontext
from jobs.masks import HIDDEN, mask_document, mask_email

TEXT_LIMIT = 20_000
"""Longer texts lose their middle before anything is looked for in them."""
LINE_LIMIT = 8000
"""Messages of log lines lose theirs already here."""
DEPTH_LIMIT = 20
SHORTEST_PART = 4
"""A shorter value is hidden where it is a word of its own, a single character only alone."""

_TELLING = """authorization proxyauthorization password passwd passphrase pwd senha secret token
  accesstoken refreshtoken idtoken apikey apitoken accesskey secretkey privatekey signingkey
  encryptionkey indexkey credential credentials cookie setcookie cookies session sessionid
  sessionkey csrftoken csrfmiddlewaretoken jwt bearer signature otp pin cvv cvc ssn cardnumber pan
  iban phone telefone celular dsn"""
_DOCUMENT = "cpf cnpj cpfcnpj document documento rg passport"
_names: dict[str, Callable[[object], str]] = {
    **dict.fromkeys(_TELLING.split(), lambda _: HIDDEN),
    **dict.fromkeys(_DOCUMENT.split(), mask_document),
}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LONGEST_NAME = 3


def declare(*names: str, mask: Callable[[object], str] = lambda _: HIDDEN) -> None:
    """Values under these names, however they are spelt, are masked from now on."""
    for name in names:
        _names["".join(_words(name))] = mask
    _mask_of.clear()


_mask_of: dict[str, Callable[[object], str] | None] = {}


def name_mask(name: object) -> Callable[[object], str] | None:
    """How values under the name are shown; None where the name says nothing.

    ``Set-Cookie``, ``userPassword`` and ``stripe_api_key`` are recognised by their words.
    """
    key = str(name)[:200]
    if key not in _mask_of:
        if len(_mask_of) > 5000:
            _mask_of.clear()
        words = _words(key)
        runs = (
            "".join(words[start : start + length])
            for length in range(_LONGEST_NAME, 0, -1)
            for start in range(len(words) - length + 1)
        )
        _mask_of[key] = next((_names[run] for run in runs if run in _names), None)
    return _mask_of[key]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


# ---- values


def redact(value: Any, *, patterns: bool = True) -> Any:
    """The same data in the shape of JSON, fit to be shown; ``patterns=False`` goes by names only.

    Never raises: what cannot be shown is named by its type.
    """
    return _redact(value, patterns, 0)


def _redact(value: Any, patterns: bool, depth: int) -> Any:
    if value is None or isinstance(value, bool | float | UUID | date | time | timedelta):
        return value
    if isinstance(value, str):
        return redact_text(value, multiline=True) if patterns else scrub(value)
    if isinstance(value, int | Decimal):
        shown = redact_text(str(value)) if patterns else scrub(str(value))
        return value if shown == str(value) else shown
    if depth >= DEPTH_LIMIT:
        return "…"
    if isinstance(value, Mapping):
        return {_key(name): _named(name, item, patterns, depth) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_redact(item, patterns, depth + 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, Enum):
        return _redact(value.value, patterns, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
        return _redact(fields, patterns, depth + 1)
    try:
        if isinstance(value, BaseModel):
            return _redact(value.model_dump(mode="json"), patterns, depth + 1)
        if isinstance(value, BaseException):
            return redact_text(f"{type(value).__name__}: {value}", multiline=True)
        return redact_text(repr(value), multiline=True)
    except Exception:
        return f"<{type(value).__name__}>"


def _key(name: object) -> str:
    return redact_text(str(name))


def _named(name: object, value: Any, patterns: bool, depth: int) -> Any:
    mask = name_mask(name)
    if mask is None or value is None or isinstance(value, bool) or value == "":
        return _redact(value, patterns, depth + 1)
    if isinstance(value, str | int):
        return visible(mask(value))
    return HIDDEN


# ---- texts

_EMAIL = re.compile(
    r"(?<![\w.%+-])[\w.%+'-]{1,64}@[^\W_](?:[\w-]{0,62}\.){1,20}[^\W\d_]{2,63}(?![\w@])"
)
_CPF = re.compile(r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d{2}(?![\w-])|(?<![\w.-])\d{11}(?![\w-])")
_CNPJ = re.compile(
    r"(?<![\w.-])[0-9A-Z]{2}\.[0-9A-Z]{3}\.[0-9A-Z]{3}/[0-9A-Z]{4}-\d{2}(?![\w-])"
    r"|(?<![\w.-])[0-9A-Z]{12}\d{2}(?![\w-])"
)
_CARD = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{2,6}){2,4}(?![\w-])")
_SCHEME = re.compile(r"\b(Bearer|Basic|Token|Digest)(\s{1,20})[\w.~+/=:-]{8,}+", re.IGNORECASE)
# Begins where a word does, also where that begins with something else, as in "token-eyJ…": else
# every "-eyJ" of a word would be tried, each to its end.
_JWT = re.compile(r"(?<![\w-])(?>((?:[\w-]*?-)??)eyJ)[\w-]{5,}+\.[\w-]{5,}+(?:\.[\w-]*+)?")
_URL_USER = re.compile(r"(?<=://)[^\s/@:]{0,200}:[^\s/@]{1,200}@")
_SEALED = re.compile(r"\benc1\.[\w-]{1,32}\.[\w-]{20,}+")
_ASSIGNED = re.compile(r"(?<![\w-])(?P<name>[\w-]{2,60})[\"']?\s{0,3}[=:]\s{0,3}")
_VALUE = re.compile(r"\"[^\"\n]{1,500}\"|'[^'\n]{1,500}'|[^\s\"'&;,(){}\[\]<>]{1,500}")


def redact_text(
    text: str, *, multiline: bool = False, limit: int = TEXT_LIMIT, head: float = 0.5
) -> str:
    """The text without what looks like a secret or personal data, and without control characters.

    ``multiline`` keeps line breaks and tabs, for messages and tracebacks that are shown as such.
    Of a text that is longer than ``limit`` the share ``head`` is its beginning, the rest its end.
    """
    text = scrub(_shortened(text, limit, head))
    if "=" in text or ":" in text:
        text = _SCHEME.sub(rf"\1\2{HIDDEN}", text)
        text = _URL_USER.sub(f"{HIDDEN}@", text)
        text = _without_assigned(text)
    else:
        text = _SCHEME.sub(rf"\1\2{HIDDEN}", text)
    if "eyJ" in text:
        text = _JWT.sub(rf"\1{HIDDEN}", text)
    if "enc1." in text:
        text = _SEALED.sub("<sealed>", text)
    if "@" in text:
        text = _EMAIL.sub(lambda found: mask_email(found[0]), text)
    if any(map(text.__contains__, "0123456789")):
        text = _CPF.sub(lambda found: _checked(found[0], _is_cpf), text)
        text = _CNPJ.sub(lambda found: _checked(found[0], _is_cnpj), text)
        text = _CARD.sub(_card, text)
    return visible(text, multiline=multiline)


_EDGE = 200
"""Characters beside a cut among which it looks for the edge of a word."""


def _shortened(text: str, limit: int, head: float) -> str:
    """The beginning and the end of a long text, without halves of words and of hidden values."""
    if len(text) <= limit:
        return text
    begin = int((limit - 1) * head)
    end = len(text) - (limit - 1 - begin)
    begin = max([text.rfind(space, max(0, begin - _EDGE), begin) for space in " \n\t"]) + 1 or begin
    found = [text.find(space, end, end + _EDGE) for space in " \n\t"]
    end = min([place for place in found if place >= 0], default=end)
    if (scrubber := _scrubbers.get()) is not None:
        begin, end = scrubber.edges(text, begin, end)
    return f"{text[:begin]}…{text[end:]}"


def _without_assigned(text: str) -> str:
    """The text without what is assigned to telling names, also behind other names."""
    parts, place = [], 0
    name = _ASSIGNED.search(text)
    while name is not None:
        end = name.end()
        if (mask := name_mask(name["name"])) and (value := _VALUE.match(text, end)):
            parts += [text[place:end], _masked(value[0], mask)]
            place = end = value.end()
        name = _ASSIGNED.search(text, end)
    return "".join([*parts, text[place:]])


def _masked(value: str, mask: Callable[[object], str]) -> str:
    if value.lower() in ("none", "null", "true", "false", "bearer", "basic", "digest", HIDDEN):
        return value
    quote = value[0] if value[0] in "\"'" else ""
    return f"{quote}{mask(value[1:-1] if quote else value)}{quote}"


def _checked(text: str, is_valid: Callable[[str], bool]) -> str:
    """A number with its punctuation is taken for what it looks like; a bare one must be valid."""
    return mask_document(text) if not text.isalnum() or is_valid(text) else text


def _digit(values: Iterable[int], weights: Iterable[int]) -> int:
    rest = sum(v * w for v, w in zip(values, weights, strict=False)) % 11
    return 0 if rest < 2 else 11 - rest


def _is_cpf(text: str) -> bool:
    n = [ord(c) - 48 for c in text]
    return (
        len(set(n)) > 1
        and n[9] == _digit(n, range(10, 1, -1))
        and n[10] == _digit(n, range(11, 1, -1))
    )


def _is_cnpj(text: str) -> bool:
    n = [ord(c) - 48 for c in text]
    weights = [5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]
    return len(set(n)) > 1 and n[12] == _digit(n, weights) and n[13] == _digit(n, [6, *weights])


def _card(found: re.Match[str]) -> str:
    text = found[0]
    digits = [int(c) for c in text if c.isdigit()]
    if not 13 <= len(digits) <= 19:
        return text
    doubled = (sum(divmod(2 * d, 10)) if odd % 2 else d for odd, d in enumerate(reversed(digits)))
    return HIDDEN + text[-4:] if sum(doubled) % 10 == 0 else text


# Also what reorders a line or ends it by Unicode's rules, and what is no text at all.
_STRANGE = r"\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(rf"[\x00-\x1f{_STRANGE}]")
_UNSAFE_IN_LINES = re.compile(rf"[\x00-\x08\x0b-\x1f{_STRANGE}]")


def visible(text: str, *, multiline: bool = False) -> str:
    """The text with every control character shown as a symbol: it forges no line and no colour."""
    return (_UNSAFE_IN_LINES if multiline else _UNSAFE).sub(_symbol, text)


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


# ---- the values of the running job


class _Folds(dict[int, int]):
    """What makes letters the same where case does not count, one by one."""

    def __missing__(self, code: int) -> int:
        letter = chr(code)
        ways = (letter.casefold(), letter.lower(), letter)
        self[code] = found = ord(next(way for way in ways if len(way) == 1))
        return found


# Those that are the same as another letter, or two others, in one case and not in both.
_FOLDS = _Folds({0x130: ord("i"), 0x131: ord("i"), 0x1FD3: 0x390, 0x1FE3: 0x3B0, 0xFB06: 0xFB05})


def _fold(text: str) -> str:
    """The text as it is compared, letter by letter at its place."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


def _is_word(text: str) -> bool:
    return text.isalnum() or text == "_"


class _Scrubber:
    """Hides values: in a time that grows with their number, whatever they are."""

    def __init__(self, values: frozenset[str]) -> None:
        self.values = values

    @cached_property
    def _ways(self) -> frozenset[str]:
        return frozenset(_fold(way) for value in self.values for way in _spellings(value))

    def scrub(self, text: str) -> str:
        if text.strip() in self.values:
            return HIDDEN
        folded = _fold(text)
        if not (spans := sorted(self._spans(folded))):
            return text
        parts, place = [], 0
        for start, end in _merged(spans):
            parts += [text[place:start], HIDDEN]
            place = end
        return "".join([*parts, text[place:]])

    def _spans(self, folded: str) -> Iterator[tuple[int, int]]:
        for way in self._ways:
            start = folded.find(way)
            while start >= 0:
                end = start + len(way)
                if len(way) >= SHORTEST_PART or not (
                    _is_word(folded[start - 1 : start]) or _is_word(folded[end : end + 1])
                ):
                    yield start, end
                    start = folded.find(way, end)
                else:
                    start = folded.find(way, start + 1)

    def edges(self, text: str, begin: int, end: int) -> tuple[int, int]:
        """Where to cut so that no value is cut in two."""
        for way in self._ways:
            for is_begin, cut in ((True, begin), (False, end)):
                low = max(0, cut - len(way) + 1)
                start = _fold(text[low : cut + len(way) - 1]).find(way)
                if start < 0:
                    continue
                if is_begin:
                    begin = low + start
                else:
                    end = low + start + len(way)
        return begin, end


def _merged(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The spans, those that overlap as one."""
    last: tuple[int, int] | None = None
    for start, end in spans:
        if last is None:
            last = start, end
        elif start < last[1]:
            last = last[0], max(last[1], end)
        else:
            yield last
            last = start, end
    if last is not None:
        yield last


_scrubbers: ContextVar[_Scrubber | None] = ContextVar("scrubbers", default=None)


@contextmanager
def scrubbing(values: Iterable[str]) -> Iterator[None]:
    """Inside of the block, every text that is redacted loses these very values."""
    found = frozenset(values) - {""}
    before = _scrubbers.get()
    token = _scrubbers.set(_Scrubber(found if before is None else found | before.values))
    try:
        yield
    finally:
        _scrubbers.reset(token)


def _spellings(value: str) -> set[str]:
    """How a value may be spelt in texts: as it is, quoted, escaped, without its punctuation."""
    bare = "".join(filter(str.isalnum, value))
    ways = {
        value,
        value.strip(),
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        ascii(value)[1:-1],
        urllib.parse.quote(value),
        urllib.parse.quote_plus(value),
        urllib.parse.quote(value, safe=""),
        bare if len(bare) >= 6 else value,
    }
    return {way for way in ways if len(way) > 1}


def scrub(text: str) -> str:
    """Return the text without the values of the running job."""
    scrubber = _scrubbers.get()
    return text if scrubber is None else scrubber.scrub(text)


class Vouched:
    """Data that the project's own code has composed, and that is stored as it is.

    ::

        return jobs.types.Vouched({"status": "sent", "attempt": 1})

    Results, events, progress and effects lose the sensitive values of their job, whatever they
    stand for there: a subject "sent" would make ``***`` of this status. Whoever vouches says that
    nothing in it comes from a sensitive field, or from somebody who may quote one.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Vouched({self.value!r})"


def storable(value: Any, limit: int) -> str:
    """Return the value as JSON text without the values of the running job, unless vouched for.

    Raises jsontext.UnstorableValue.
    """
    if isinstance(value, Vouched):
        return jsontext.dumps(value.value, limit)
    return scrub_json(jsontext.dumps(value, limit))


def scrub_json(text: str) -> str:
    """The JSON text without the values of the running job; the same text where it has none."""
    if _scrubbers.get() is None:
        return text
    return json.dumps(_scrub_data(json.loads(text)))


def _scrub_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {scrub(key): _scrub_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrub_data(item) for item in value]
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, bool) or value is None:
        return value
    shown = scrub(str(value))
    return value if shown == str(value) else shown


# ---- logs


def processor(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A structlog processor: the whole event is redacted. Put it right before the renderer."""
    for name in list(event):
        value = event[name]
        if isinstance(value, str) and name not in ("exception", "stack"):
            mask = name_mask(name)
            event[name] = visible(mask(value)) if mask and value else _line(value)
        else:
            event[name] = _named(name, value, True, 0)
    return event


def _line(text: str) -> str:
    return redact_text(text, limit=LINE_LIMIT)


class Redacted(Exception):
    """Base of copies of exceptions that hold nothing to be hidden; see ``jobs.redacted``."""


class RedactingFilter(logging.Filter):
    """Records leave its handler or logger redacted: message, arguments and traceback."""

    _formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:
            text = str(record.msg)
        record.msg, record.args = _line(text), ()
        if record.exc_info and record.exc_info[0] is not None:
            trace = record.exc_text or self._formatter.formatException(record.exc_info)
            record.exc_text = redact_text(trace, multiline=True)
            if not isinstance(record.exc_info[1], Redacted):
                record.exc_info = None
        elif record.exc_text:
            record.exc_text = redact_text(record.exc_text, multiline=True)
        return True

"""API keys: made, rotated and revoked by people, shown by programs.

A key is ``jd_live_<public part>_<secret>``. The secret is shown once and kept as a hash; nobody can
give a key more than he may himself.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Annotated, Any

from django.utils.crypto import constant_time_compare
from pydantic import Field

from jobs import principals
from jobs.engine import sql
from jobs.errors import Denied, InvalidOption, NotAllowed, UnknownTarget
from jobs.ids import uuid7
from jobs.models import ApiKey
from jobs.names import label_problem, name_problem
from jobs.operate.permissions import MANAGE_APIKEY
from jobs.operate.targets import APIKEY, Place
from jobs.operate.verbs import acting, verb
from jobs.principals import By, Principal, Scope, every_permission
from jobs.statements import Statement

LONGEST_OVERLAP = timedelta(days=30)
LIST_LIMIT = 100
_SHOWN = re.compile(r"jd_live_([a-z0-9]{12})_([A-Za-z0-9]{43})\Z")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ALPHABET = _LETTERS + _LETTERS[:26].upper()
_USED_EVERY = "1 minute"


@dataclass(frozen=True, slots=True)
class Told:
    """A key and its whole text, which is shown only once."""

    key: ApiKey
    text: str

    def __repr__(self) -> str:
        return f"Told({self.key})"


@verb("apikey.create", on=APIKEY, permission=MANAGE_APIKEY, group="administrator", new=True)
def create(
    name: Annotated[str, Field(min_length=1, max_length=80)],
    permissions: Annotated[Sequence[str], Field(min_length=1, max_length=LIST_LIMIT)],
    *,
    by: By,
    reason: str,
    tenants: Annotated[
        Sequence[str] | None, Field(max_length=LIST_LIMIT, description="only this tenant")
    ] = None,
    queues: Annotated[
        Sequence[str] | None, Field(max_length=LIST_LIMIT, description="only this queue")
    ] = None,
    addresses: Annotated[
        Sequence[str], Field(max_length=LIST_LIMIT, description="only from this address or network")
    ] = (),
    expires_at: Annotated[
        datetime | None, Field(description="good until this time, like 2030-01-31T18:00Z")
    ] = None,
    is_staff: Annotated[bool, Field(description="also sees what is meant for administrators")] = (
        False
    ),
) -> Told:
    """Create an API key; its secret is shown once.

    Without tenants or queues it is good for those that the caller sees, without addresses from
    everywhere.
    """
    who = principals.principal(by)
    with acting(create, by=by, reason=reason, place=Place()) as act:
        row = ApiKey(
            name=_checked_name(name),
            permissions=_permissions(permissions),
            tenants=_names("tenants", tenants, who.scope.tenants, label_problem),
            queues=_names("queues", queues, who.scope.queues, name_problem),
            addresses=_addresses(addresses),
            is_staff=_flag("is_staff", is_staff),
            created_by=act.name,
        )
        row.expires_at = _future("expires_at", expires_at)
        _no_more_than(who, row)
        _no_farther_than_own(who, row)
        row.prefix = "".join(secrets.choice(_LETTERS) for _ in range(12))
        secret, row.secret_hash = _secret()
        row.save(using=sql.alias(), force_insert=True)
        act.concerns(row.pk)
        act.note(permissions=row.permissions, tenants=row.tenants, queues=row.queues)
    return Told(find(row.pk, by=by), _text(row.prefix, secret))


@verb("apikey.rotate", on=APIKEY, permission=MANAGE_APIKEY, group="administrator")
def rotate(
    key_id: int,
    *,
    by: By,
    reason: str,
    overlap: Annotated[
        timedelta, Field(le=LONGEST_OVERLAP, description="the old secret works for this long")
    ] = timedelta(hours=24),
) -> Told:
    """Give an API key a new secret; the old one stays good for a while."""
    if not isinstance(overlap, timedelta) or not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise InvalidOption("overlap", "must lie between 0 and 30 days")
    with acting(rotate, key_id, by=by, reason=reason, place=Place()):
        row = _locked(key_id, by)
        _no_farther_than_own(principals.principal(by), row)
        secret, hashed = _secret()
        sql.run(
            "UPDATE jobs_apikey SET previous_hash = secret_hash, secret_hash = %s, "
            "previous_until = jobs_clock() + %s, rotated_at = jobs_clock() WHERE id = %s",
            [hashed, overlap, row.pk],
        )
    return Told(find(row.pk, by=by), _text(row.prefix, secret))


@verb("apikey.revoke", on=APIKEY, permission=MANAGE_APIKEY, group="administrator")
def revoke(key_id: int, *, by: By, reason: str) -> ApiKey:
    """Revoke an API key for ever."""
    with acting(revoke, key_id, by=by, reason=reason, place=Place()) as act:
        row = _locked(key_id, by)
        sql.run(
            "UPDATE jobs_apikey SET revoked_at = jobs_clock(), revoked_by = %s, "
            "previous_hash = '', previous_until = NULL WHERE id = %s",
            [act.name, row.pk],
        )
    return find(row.pk, by=by)


def find(key_id: int, *, by: By) -> ApiKey:
    """The key, if the caller sees as much as it does; raises UnknownTarget."""
    row: ApiKey | None = _rows().filter(pk=key_id).first()
    if row is None or not _is_within(principals.principal(by).scope, row):
        raise UnknownTarget("apikey", key_id)
    return row


def visible(by: By) -> Any:
    """The keys that see no more than the caller, as a queryset."""
    rows, scope = _rows(), principals.principal(by).scope
    if scope.tenants is not None:
        rows = rows.filter(tenants__contained_by=sorted(scope.tenants))
    if scope.queues is not None:
        rows = rows.filter(queues__contained_by=sorted(scope.queues))
    return rows


_FIND = Statement(
    "jobs_apikey_find",
    """
SELECT row_to_json(k) FROM (SELECT id, name, secret_hash AS now,
  CASE WHEN previous_until > jobs_clock() THEN previous_hash ELSE '' END AS before,
  permissions, tenants, queues, addresses, is_staff,
  revoked_at IS NULL AND (expires_at IS NULL OR expires_at > jobs_clock()) AS good,
  last_used_at IS NULL OR last_used_at < jobs_clock() - %(lately)s::interval AS stale
FROM jobs_apikey WHERE prefix = %(prefix)s) k
""",
)
_USED = """
UPDATE jobs_apikey SET last_used_at = jobs_clock() WHERE id = (SELECT id FROM jobs_apikey
  WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED)
"""


def principal(shown: str, *, address: str, request_id: str = "") -> Principal | None:
    """Whoever shows this text from this address; None where no key is good for that."""
    found = _SHOWN.match(shown)
    prefix, secret = (found[1], found[2]) if found else ("", shown[:100])
    row = _row(prefix) if found else None
    # Also where there is no such key, so that the time reveals nothing.
    now, before = (row["now"], row["before"]) if row else ("-", "")
    hashed = _hash(secret)
    fits = constant_time_compare(hashed, now) | constant_time_compare(hashed, before or "-")
    if row is None or not (fits and row["good"] and _is_allowed(address, row["addresses"])):
        return None
    if row["stale"]:
        sql.run(_USED, [row["id"]])
    return _principal(row, prefix, request_id)


def holder(prefix: str, *, request_id: str = "") -> Principal | None:
    """Whoever has the key with this public part, as long as it is good: for what he has opened."""
    row = _row(prefix)
    return _principal(row, prefix, request_id) if row and row["good"] else None


def _row(prefix: str) -> dict[str, Any] | None:
    found = _FIND.rows({"lately": _USED_EVERY, "prefix": prefix}, using=sql.alias())
    return found[0] if found else None


def _principal(row: dict[str, Any], prefix: str, request_id: str) -> Principal:
    tenants, queues = row["tenants"], row["queues"]
    return Principal(
        name=f"{row['name']} ({prefix})",
        via="api",
        permissions=every_permission() & frozenset(row["permissions"]),
        scope=Scope(
            None if tenants is None else frozenset(tenants),
            None if queues is None else frozenset(queues),
        ),
        is_staff=row["is_staff"],
        request_id=request_id,
        key=prefix,
    )


def _rows() -> Any:
    return ApiKey.objects.using(sql.alias())


def _locked(key_id: int, by: By) -> ApiKey:
    row: ApiKey | None = _rows().select_for_update().filter(pk=key_id).first()
    who = principals.principal(by)
    if row is None or not _is_within(who.scope, row):
        raise UnknownTarget("apikey", key_id)
    if row.revoked_at is not None:
        raise NotAllowed("change", uuid7(), "revoked", [])
    _no_more_than(who, row)
    return row


def _is_within(scope: Scope, row: ApiKey) -> bool:
    return all(
        seen is None or (names is not None and frozenset(names) <= seen)
        for seen, names in ((scope.tenants, row.tenants), (scope.queues, row.queues))
    )


def _no_more_than(who: Principal, row: ApiKey) -> None:
    for permission in row.permissions:
        if not who.may(permission):
            raise Denied(permission)
    if not _is_within(who.scope, row):
        raise InvalidOption("tenants", "or queues reach farther than your own")
    if row.is_staff and not who.is_staff:
        raise InvalidOption("is_staff", "is not yours to give")


def _no_farther_than_own(who: Principal, row: ApiKey) -> None:
    """What a key makes is good no longer, and from nowhere else, than the key itself."""
    if not who.key:
        return
    own = _rows().filter(prefix=who.key).first()
    if own is None:
        raise Denied("manage_apikey")
    if own.expires_at is not None and (row.expires_at is None or row.expires_at > own.expires_at):
        raise InvalidOption("expires_at", "must be no later than that of your own key")
    if own.addresses and not (
        row.addresses and all(_lies_in(n, own.addresses) for n in row.addresses)
    ):
        raise InvalidOption("addresses", "must lie within those of your own key")


def _lies_in(network: str, ranges: Iterable[str]) -> bool:
    inner: Any = ip_network(network)
    outer: list[Any] = [ip_network(one) for one in ranges]
    return any(inner.version == one.version and inner.subnet_of(one) for one in outer)


def _is_allowed(address: str, ranges: Iterable[str]) -> bool:
    ranges = list(ranges)
    if not ranges:
        return True
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in ip_network(one) for one in ranges)


def _secret() -> tuple[str, str]:
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(43))  # 256 bits
    return secret, _hash(secret)


def _hash(secret: str) -> str:
    # 256 random bits cannot be guessed: a slow hash would only slow every request down.
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _text(prefix: str, secret: str) -> str:
    return f"jd_live_{prefix}_{secret}"


def _checked_name(name: object) -> str:
    if problem := label_problem(name, 80):
        raise InvalidOption("name", problem)
    if not str(name).strip():
        raise InvalidOption("name", "is empty")
    return str(name).strip()


def _permissions(given: Iterable[str]) -> list[str]:
    names = sorted(set(given))
    if not names:
        raise InvalidOption("permissions", "is empty: the key could do nothing")
    for name in names:
        if name not in every_permission():
            near = difflib.get_close_matches(name, every_permission(), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidOption("permissions", f"there is no permission {name!r}{hint}")
    return names


def _names(
    option: str, given: Iterable[str] | None, own: Iterable[str] | None, problem_of: Any
) -> list[str] | None:
    given = own if given is None else given
    if given is None:
        return None
    names = sorted(set(given))
    if len(names) > LIST_LIMIT:
        raise InvalidOption(option, f"has more than {LIST_LIMIT} entries")
    for name in names:
        if problem := problem_of(name):
            raise InvalidOption(option, problem)
    return names


def _addresses(given: Iterable[str]) -> list[str]:
    found = []
    for text in given:
        try:
            found.append(str(ip_network(text)))
        except ValueError:
            raise InvalidOption("addresses", f"{text!r} is no address or network") from None
    if len(found) > LIST_LIMIT:
        raise InvalidOption("addresses", f"has more than {LIST_LIMIT} entries")
    return found


def _flag(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(option, "must be True or False")
    return value


def _future(option: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidOption(option, "must be a datetime with a time zone")
    if sql.rows("SELECT %s::timestamptz > jobs_clock()", [moment]) == [(False,)]:
        raise InvalidOption(option, "has passed already")
    return moment

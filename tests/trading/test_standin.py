"""The stand-in refuses what the venue refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest

from config.standins.trading import Account, Coinbase, new_account
from jobs import http
from trading.clients import signing

API = "/api/v3/brokerage"
FILLS, CANDLES = f"{API}/orders/historical/fills", f"{API}/market/products/BTC-USD/candles"


@pytest.fixture
def account(venue: Coinbase) -> Account:
    return venue.add(new_account())


def ask(venue: Coinbase, path: str, token: str = "", **query: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = http.get(f"{venue.url}{path}", params=query, headers=headers)
    return answer.status_code, answer.json()


def token_of(venue: Coinbase, account: Account, path: str = FILLS, method: str = "GET") -> str:
    host = venue.url.removeprefix("http://")
    return signing.token(account.name, account.secret, method, host, path)


def test_a_token_is_for_one_request_to_one_path(venue: Coinbase, account: Account) -> None:
    good = token_of(venue, account)
    assert ask(venue, FILLS, good)[0] == 200
    for name, bad in {
        "used before": good, "of another path": token_of(venue, account, f"{API}/key_permissions"),
        "of another method": token_of(venue, account, method="POST"), "none": "",
        "of an unknown key": token_of(venue, new_account("organizations/o/apiKeys/x")),
        "signed by another": token_of(venue, new_account(account.name)),
        "with a query": token_of(venue, account, f"{FILLS}?limit=1"),
    }.items():  # fmt: skip
        assert ask(venue, FILLS, bad)[0] == 401, name


@pytest.mark.parametrize(("begins", "ends"), [(-400, -280), (300, 420)])
def test_a_token_of_another_time_is_refused(
    venue: Coinbase, account: Account, begins: int, ends: int
) -> None:
    key, algorithm = signing.load_key(account.secret)
    moment = int(datetime.now(UTC).timestamp())
    host = venue.url.removeprefix("http://")
    claims = {
        "sub": account.name, "iss": "cdp", "nbf": moment + begins, "exp": moment + ends,
        "uri": f"GET {host}{FILLS}",
    }  # fmt: skip
    head = {"kid": account.name, "nonce": "n"}
    made = jwt.encode(claims, key, algorithm=algorithm, headers=head)
    assert ask(venue, FILLS, made)[0] == 401


def test_impossible_requests_are_refused(venue: Coinbase, account: Account) -> None:
    def fills(**query: Any) -> int:
        return ask(venue, FILLS, token_of(venue, account), **query)[0]

    assert fills(cursor="bm9uc2Vuc2U=") == fills(sort_by="PRICE") == 400
    account.can_view = False
    assert fills() == 403
    end = int(venue.market.end.timestamp())
    day: dict[str, Any] = {"granularity": "ONE_HOUR", "start": end - 24 * 3600, "end": end}
    assert ask(venue, CANDLES, **day)[0] == 200
    assert ask(venue, CANDLES, **{**day, "start": end - 300 * 3600})[0] == 400
    assert ask(venue, CANDLES, **{**day, "granularity": "1h"})[0] == 400
    assert ask(venue, CANDLES.replace("BTC", "GONE"), **day)[0] == 404


def test_fills_after_a_moment_leave_out_the_moment_itself(
    venue: Coinbase, account: Account
) -> None:
    account.fills = venue.market.fills()
    first, second = sorted(row["trade_time"] for row in account.fills)[:2]
    token = token_of(venue, account)
    _, found = ask(venue, FILLS, token, start_sequence_timestamp=first)
    assert len(found["fills"]) == 11
    assert min(row["trade_time"] for row in found["fills"]) == second
    assert datetime.fromisoformat(second) - datetime.fromisoformat(first) > timedelta(0)

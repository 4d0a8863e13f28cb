"""The client and the stand-in speak as the venue's own SDK does."""

from __future__ import annotations

import base64
from typing import Any

import jwt
import pytest

from config.standins.trading import Coinbase, new_account
from jobs import http
from tests.trading import vendor
from tests.trading.test_flow import imported
from trading import links
from trading.clients import signing
from trading.models import BrokerConnection


@pytest.mark.django_db(transaction=True)
def test_requests_have_only_parameters_that_the_sdk_knows(
    venue: Coinbase, link: BrokerConnection
) -> None:
    venue.page = 5
    links.check_key("coinbase", str(link.key_name), str(link.secret), may_trade=False)
    imported(link)
    asked = {what for _, what, _ in venue.asked}
    assert asked == set(vendor.PARAMETERS)
    for _, what, query in venue.asked:
        assert set(query) <= vendor.PARAMETERS[what], what
    assert not any("sort_by" in query for _, _, query in venue.asked), "it makes paging unstable"


@pytest.mark.parametrize("what", list(vendor.PATHS))
def test_the_stand_in_answers_with_the_fields_that_the_sdk_reads(
    venue: Coinbase, what: str
) -> None:
    account = venue.add(new_account())
    account.fills = venue.market.fills()
    begin = int(venue.market.begin.timestamp()) + 3600
    query = {"start": str(begin), "end": str(begin + 7200), "granularity": "ONE_HOUR"}
    path, host = vendor.PATHS[what], venue.url.removeprefix("http://")
    made = signing.token(account.name, account.secret, "GET", host, path)
    answer: dict[str, Any] = http.get(
        f"{venue.url}{path}", params=query if what == "candles" else {},
        headers={"Authorization": f"Bearer {made}"},
    ).json()  # fmt: skip
    assert {name: type(value) for name, value in answer.items()} == vendor.ANSWERS[what]
    for row in answer.get(what, []):
        assert set(row) == vendor.ROWS[what]
        assert {type(value) for value in row.values()} <= {str, bool}


@pytest.mark.parametrize("ed", [False, True])
def test_tokens_have_the_claims_of_the_sdk(ed: bool) -> None:
    account = new_account(ed=ed)
    made = signing.token(account.name, account.secret, "GET", "api.coinbase.com", "/api/v3/x")
    claims = jwt.decode(made, account.public, algorithms=[account.algorithm], issuer="cdp")
    assert set(claims) == vendor.CLAIMS and claims["exp"] - claims["nbf"] == 120
    assert claims["uri"] == "GET api.coinbase.com/api/v3/x"
    assert set(jwt.get_unverified_header(made)) == vendor.HEAD


def test_an_ed25519_key_may_be_its_seed_alone_and_have_line_breaks() -> None:
    account = new_account(ed=True)
    seed = base64.b64encode(base64.b64decode(account.secret)[:32]).decode()
    for text in (seed, f"{account.secret[:40]}\n{account.secret[40:]}\n"):
        made = signing.token(account.name, text, "GET", "h", "/p")
        jwt.decode(made, account.public, algorithms=["EdDSA"], issuer="cdp")

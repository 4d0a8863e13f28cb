"""The venue's own SDK reads the stand-in: what it does not understand, the app must not learn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.standins.trading import Coinbase, new_account

SDK = "coinbase-advanced-py==1.8.4"
"""Not among the packages of the tests: it wants other versions of theirs."""
SCRIPT = """
import json, sys
from coinbase.rest import RESTClient
from requests.adapters import HTTPAdapter

name, secret, host, begin, end, fields = json.load(sys.stdin)


class Plain(HTTPAdapter):
    def send(self, request, **options):
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **options)


client = RESTClient(api_key=name, api_secret=secret, base_url=host)
client.session.mount("https://", Plain())
rights = client.get_api_key_permissions()
fills, cursor = [], ""
while True:
    page = client.get_fills(limit=5, cursor=cursor or None)
    fills += [[getattr(one, field) for field in fields] for one in page.fills]
    cursor = page.cursor
    if not cursor:
        break
found = client.get_public_candles("BTC-USD", begin, end, "ONE_HOUR")
print(json.dumps({
    "rights": [rights.can_view, rights.can_trade, rights.can_transfer],
    "fills": fills,
    "candles": [[one.start, one.low, one.high, one.open, one.close] for one in found.candles],
}))
"""


@pytest.mark.soak
@pytest.mark.parametrize("ed", [False, True])
def test_the_sdk_of_the_venue_reads_the_stand_in(
    standin: Coinbase, tmp_path: Path, ed: bool
) -> None:
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path), SDK]
    subprocess.run(install, check=True)
    standin.reset()
    standin.page = 5
    account = standin.add(new_account(ed=ed))
    account.fills = standin.market.fills()
    begin = int(standin.market.begin.timestamp()) + 3600
    host = standin.url.removeprefix("http://")
    fields = ["entry_id", "product_id", "side", "price", "size", "commission", "trade_time"]
    asked = [account.name, account.secret, host, str(begin), str(begin + 4 * 3600), fields]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(asked), capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert read["rights"] == [account.can_view, account.can_trade, account.can_transfer]
    assert sorted(read["fills"]) == sorted([one[name] for name in fields] for one in account.fills)
    assert len(read["candles"]) >= 4 and all(len(row) == 5 and all(row) for row in read["candles"])
    assert standin.count("fills") == -(-len(account.fills) // 5)

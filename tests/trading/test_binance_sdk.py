"""Binance's own SDK reads the stand-in: what it does not understand, the app must not learn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.standins.trading import Binance, binance_fills, new_binance_account

SDK = "binance-sdk-spot==13.2.0"
"""Not among the packages of the tests: it wants other versions of theirs."""
SCRIPT = """
import json, sys
from binance_sdk_spot.spot import ConfigurationRestAPI, Spot

key, secret, url, begin = json.load(sys.stdin)
api = Spot(config_rest_api=ConfigurationRestAPI(api_key=key, api_secret=secret, base_path=url))
api = api.rest_api
answer = api.my_trades("BTCUSDT", limit=1000)
trades = [[one.id, one.order_id, one.price, one.qty, one.commission, one.commission_asset,
           one.time, one.is_buyer] for one in answer.data()]
following = api.my_trades("BTCUSDT", from_id=trades[2][0], limit=2).data()
print(json.dumps({
    "trades": trades,
    "following": [one.id for one in following],
    "used": [[limit.rateLimitType, limit.intervalNum, limit.interval, limit.count]
             for limit in answer.rate_limits],
    "balances": [[one.asset, one.free] for one in api.get_account().data().balances],
    "markets": [[one.symbol, one.base_asset, one.quote_asset]
                for one in api.exchange_info().data().symbols],
    "candles": [list(row)[:6] for row in
                api.klines("BTCUSDT", "1h", start_time=begin, end_time=begin + 4 * 3600000).data()],
}, default=str))
"""


@pytest.mark.soak
def test_the_sdk_of_the_venue_reads_the_stand_in(binance_standin: Binance, tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path), SDK]
    subprocess.run(install, check=True)
    binance_standin.reset()
    account = binance_standin.add(new_binance_account())
    account.fills = binance_fills(binance_standin.market)
    begin = int(binance_standin.market.begin.timestamp() * 1000) + 3_600_000
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True,
        input=json.dumps([account.key, account.secret, binance_standin.url, begin]),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    names = ("id", "orderId", "price", "qty", "commission", "commissionAsset", "time", "isBuyer")
    of_market = [one for one in account.fills if one["symbol"] == "BTCUSDT"]
    assert read["trades"] == [[one[name] for name in names] for one in of_market]
    assert read["following"] == [one["id"] for one in of_market[2:4]]
    assert read["used"] == [["REQUEST_WEIGHT", 1, "MINUTE", 20]]
    assert dict(read["balances"]) == account.balances
    assert ["BTCUSDT", "BTC", "USDT"] in read["markets"]
    assert len(read["candles"]) >= 4

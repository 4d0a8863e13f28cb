"""Both venues and the vendor on one market, and the settings by which a project finds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from config.standins.trading import logins
from config.standins.trading.binance import Binance, BinanceAccount, binance_fills
from config.standins.trading.coinbase import Account, Coinbase
from config.standins.trading.market import Market
from config.standins.trading.vendor import KEY, Vendor


@contextmanager
def serving(
    market: Market, trader: Account, other: BinanceAccount, port: int = 0
) -> Iterator[dict[str, str]]:
    """Serve them with the trades of the plan in both accounts; yield the settings.

    The trader is also the one who is logged in at Coinbase. Fills have the same names all day.
    """
    coinbase, binance, vendor = Coinbase(market, port), Binance(market), Vendor(market)
    coinbase.add(trader).fills = market.fills(prefix=f"{market.end:%Y%m%d}-")
    coinbase.logins.account = trader.name
    binance.add(other).fills = binance_fills(market, market.end.toordinal() * 100)
    other.balances |= {"ETH": "2"}
    started = [one.start() for one in (coinbase, binance, vendor)]
    try:
        yield {
            "COINBASE_URL": coinbase.url, "COINBASE_LOGIN_URL": coinbase.url,
            "COINBASE_CLIENT_ID": logins.CLIENT_ID, "COINBASE_CLIENT_SECRET": logins.CLIENT_SECRET,
            "FEATURE_BINANCE": "on", "BINANCE_URL": binance.url,
            "FEATURE_VENDOR_FALLBACK": "on", "VENDOR_URL": vendor.url, "VENDOR_API_KEY": KEY,
        }  # fmt: skip
    finally:
        for one in started:
            one.stop()

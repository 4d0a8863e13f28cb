"""Venues on loopback: one seeded market, the APIs in front of it; and a gate."""

from config.standins.trading.binance import (
    Binance,
    BinanceAccount,
    binance_fill,
    binance_fills,
    new_binance_account,
)
from config.standins.trading.coinbase import Account, Coinbase, known_account, new_account
from config.standins.trading.gate import Gate
from config.standins.trading.market import Market
from config.standins.trading.vendor import Vendor
from config.standins.trading.venue import Fault

__all__ = [
    "Account",
    "Binance",
    "BinanceAccount",
    "Coinbase",
    "Fault",
    "Gate",
    "Market",
    "Vendor",
    "binance_fill",
    "binance_fills",
    "known_account",
    "new_account",
    "new_binance_account",
]

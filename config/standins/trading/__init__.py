"""A venue on loopback: one seeded market, and Coinbase's API in front of it; and a gate."""

from config.standins.trading.coinbase import (
    Account,
    Coinbase,
    Fault,
    known_account,
    new_account,
)
from config.standins.trading.gate import Gate
from config.standins.trading.market import Market

__all__ = ["Account", "Coinbase", "Fault", "Gate", "Market", "known_account", "new_account"]

"""Links, users and trades for tests."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User

from config.standins.trading import Account
from trading.models import BrokerConnection, Trade

AI_KEY, AI_SECRET = "desk", "a secret of the tests"
WEEK = datetime(2026, 1, 5, tzinfo=UTC)


def user(name: str = "trader") -> User:
    # What Redis counts of a user outlives the database of a run.
    known = User.objects.filter(username__startswith=f"{name}-").first()
    return known or User.objects.create_user(f"{name}-{random.randrange(2**31)}")


def linked(account: Account, name: str = "trader", **fields: Any) -> BrokerConnection:
    return BrokerConnection.objects.create(
        id=uuid.uuid4(), user=user(name), broker="coinbase", key_name=account.name,
        secret=account.secret, **fields,
    )  # fmt: skip


def trade(
    number: int, side: str, qty: str, price: str, hours: float = 0, *, fee: str = "0",
    fee_asset: str = "USD", owner: User | None = None, saved: bool = True, **fields: Any,
) -> Trade:  # fmt: skip
    """A trade so many hours after Monday, 5 January 2026; unsaved ones need no user."""
    row = Trade(
        id=None if saved else number, user_id=owner.pk if owner else 1, broker="coinbase",
        **{
            "ext_id": f"e{number}", "trade_id": f"t{number}", "order_id": f"o{number}",
            "symbol": "BTC-USD", "base": "BTC", "quote": "USD", "side": side, "type": "FILL",
            "qty": Decimal(qty), "price": Decimal(price), "fee": Decimal(fee),
            "fee_asset": fee_asset, "ts": WEEK + timedelta(hours=hours),
            "sequence": f"{number:08d}", **fields,
        },
    )  # fmt: skip
    if saved:
        row.save()
    return row

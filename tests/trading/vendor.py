"""What Coinbase's own SDK for Python (coinbase-advanced-py 1.8.4) sends and reads, by request."""

from __future__ import annotations

API = "/api/v3/brokerage"
PARAMETERS = {
    "key_permissions": set[str](),
    "fills": {
        "order_ids", "trade_ids", "product_ids", "start_sequence_timestamp",
        "end_sequence_timestamp", "retail_portfolio_id", "limit", "cursor", "sort_by",
    },
    "candles": {"start", "end", "granularity", "limit"},
}  # fmt: skip
"""Of the query."""
PATHS = {
    "key_permissions": f"{API}/key_permissions",
    "fills": f"{API}/orders/historical/fills",
    "candles": f"{API}/market/products/BTC-USD/candles",
}
ANSWERS = {
    "key_permissions": {
        "can_view": bool, "can_trade": bool, "can_transfer": bool, "portfolio_uuid": str,
        "portfolio_type": str,
    },
    "fills": {"fills": list, "cursor": str},
    "candles": {"candles": list},
}  # fmt: skip
ROWS = {
    "fills": {
        "entry_id", "trade_id", "order_id", "trade_time", "trade_type", "price", "size",
        "commission", "product_id", "sequence_timestamp", "liquidity_indicator", "size_in_quote",
        "user_id", "side", "retail_portfolio_id",
    },
    "candles": {"start", "low", "high", "open", "close", "volume"},
}  # fmt: skip
CLAIMS, HEAD = {"sub", "iss", "nbf", "exp", "uri"}, {"kid", "nonce", "alg", "typ"}
"""Of a token: what is signed, and its header."""

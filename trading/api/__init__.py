"""API operations on links, imports, scorings, trades, comparisons, rules and digests."""

# Their order is that of the operations in the document of the API.
from trading.api import links, imports, scores, trades  # isort: skip
from trading.api import comparisons, rules, digests, erasing  # isort: skip
from trading.api.caller import section

__all__ = [
    "comparisons", "digests", "erasing", "imports", "links", "rules", "scores", "section", "trades",
]  # fmt: skip

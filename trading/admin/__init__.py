"""Pages of the admin."""

from trading.admin import digests as digests
from trading.admin import links as links
from trading.admin import panels as panels
from trading.admin import rules as rules
from trading.admin import trades as trades

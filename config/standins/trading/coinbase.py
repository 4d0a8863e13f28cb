"""Coinbase Advanced Trade over real HTTP: it refuses what the venue refuses."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from config.standins.trading.logins import Logins
from config.standins.trading.market import LEVELS, Market
from config.standins.trading.venue import Answer, Asked, Venue

API = "/api/v3/brokerage"
MOST_CANDLES = 300
_FILLS = {"start_sequence_timestamp", "end_sequence_timestamp", "limit", "cursor", "product_ids"}


@dataclass
class Account:
    """An account of the venue, with its key."""

    name: str
    secret: str
    public: Any
    algorithm: str
    fills: list[dict[str, Any]] = field(default_factory=list)
    can_view: bool = True
    can_trade: bool = False
    can_transfer: bool = False


def new_account(name: str = "organizations/o/apiKeys/k", *, ed: bool = False) -> Account:
    """Return an account with a fresh key, ES256 or Ed25519."""
    if ed:
        key = ed25519.Ed25519PrivateKey.generate()
        raw = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        public = key.public_key()
        raw += public.public_bytes(Encoding.Raw, PublicFormat.Raw)
        return Account(name, base64.b64encode(raw).decode(), public, "EdDSA")
    made = ec.generate_private_key(ec.SECP256R1())
    pem = made.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    ).decode()
    return Account(name, pem, made.public_key(), "ES256")


def known_account(name: str, secret: str) -> Account:
    """Return the account with this ES256 key."""
    key = load_pem_private_key(secret.encode(), None)
    return Account(name, secret, key.public_key(), "ES256")


class Coinbase(Venue):
    """The venue; register accounts, and let users log in."""

    def __init__(self, market: Market | None = None, port: int = 0) -> None:
        super().__init__(port)
        self.market = market or Market()
        self.accounts: dict[str, Account] = {}
        self.logins = Logins()
        self.page = 250
        self._nonces: set[str] = set()

    def reset(self) -> None:
        """Forget accounts, logins, faults and what was asked."""
        super().reset()
        self.accounts.clear()
        self.logins = Logins()
        self.page = 250

    def add(self, account: Account) -> Account:
        """Register an account."""
        self.accounts[account.name] = account
        return account

    def answer(self, asked: Asked) -> Answer:
        if asked.path.startswith("/oauth2/"):
            return self.logins.answer(asked)
        return Answer(*self._route(asked, asked.path, asked.query))

    def _route(self, request: Asked, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if path.startswith(f"{API}/market/products/") and path.endswith("/candles"):
            return self._candles(unquote(path.split("/")[-2]), query)
        account = self._known(request, path)
        if account is None:
            return 401, {"error": "Unauthorized"}
        if path == f"{API}/key_permissions":
            return 200, {
                "can_view": account.can_view, "can_trade": account.can_trade,
                "can_transfer": account.can_transfer, "portfolio_uuid": "p",
                "portfolio_type": "DEFAULT",
            }  # fmt: skip
        if path == f"{API}/orders/historical/fills":
            if not account.can_view:
                return 403, {"error": "PERMISSION_DENIED", "message": "missing view"}
            return self._fills(account, query)
        return 404, {"error": "NOT_FOUND"}

    def _known(self, request: Asked, path: str) -> Account | None:
        """Return the account of a JWT that is genuine, for this very path, and new."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if name := self.logins.account_of(text):
            return self.accounts.get(name)
        try:
            head = jwt.get_unverified_header(text)
            account = self.accounts[head["kid"]]
            claims = jwt.decode(
                text, account.public, algorithms=[account.algorithm], issuer="cdp",
                options={"require": ["exp", "nbf", "sub", "iss"]},
            )  # fmt: skip
        except (jwt.PyJWTError, KeyError):
            return None
        uri = f"GET {request.headers.get('Host', '')}{path}"
        nonce = str(head.get("nonce", ""))
        with self._lock:
            is_new = bool(nonce) and nonce not in self._nonces
            self._nonces.add(nonce)
        fits = claims["sub"] == account.name and claims.get("uri") == uri
        return account if scheme == "Bearer" and fits and is_new else None

    def _fills(self, account: Account, query: dict[str, str]) -> tuple[int, Any]:
        if unknown := set(query) - _FILLS:
            return 400, {"error": "INVALID_ARGUMENT", "message": f"unknown {sorted(unknown)}"}
        since = datetime.fromisoformat(
            query.get("start_sequence_timestamp", "1970-01-01T00:00:00Z")
        )
        rows = [
            row for row in account.fills
            if datetime.fromisoformat(row.get("trade_time", "2000-01-01T00:00:00Z")) > since
        ]  # fmt: skip
        rows.sort(key=lambda row: str(row.get("trade_time")), reverse=True)
        place = 0
        if cursor := query.get("cursor", ""):
            try:
                place = int(base64.urlsafe_b64decode(cursor).decode().removeprefix("after:"))
            except ValueError:
                return 400, {"error": "INVALID_ARGUMENT", "message": "invalid cursor"}
        size = min(self.page, int(query.get("limit", "100")))
        following = place + size
        more = base64.urlsafe_b64encode(f"after:{following}".encode()).decode()
        return 200, {
            "fills": rows[place:following], "cursor": more if following < len(rows) else "",
        }  # fmt: skip

    def _candles(self, symbol: str, query: dict[str, str]) -> tuple[int, Any]:
        if symbol not in LEVELS:
            return 404, {"error": "NOT_FOUND", "message": "product"}
        start, end = int(query["start"]), int(query["end"])
        if query.get("granularity") != "ONE_HOUR" or (end - start) // 3600 + 1 >= MOST_CANDLES:
            return 400, {"error": "INVALID_ARGUMENT", "message": "number of candles"}
        return 200, {"candles": self.market.candles(symbol, start, end)}

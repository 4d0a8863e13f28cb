"""Coinbase Advanced Trade over real HTTP: it refuses what the venue refuses."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from config.standins.serving import Server
from config.standins.trading.market import LEVELS, Market

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


@dataclass(frozen=True)
class Fault:
    """What happens to one request instead of an answer."""

    status: int = 0
    """0 drops the connection."""
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "<html>too busy</html>"
    sleep: float = 0.0


class Coinbase:
    """The venue; start it, register accounts, plan faults, look at what was asked."""

    def __init__(self, market: Market | None = None, port: int = 0) -> None:
        self.market = market or Market()
        self.accounts: dict[str, Account] = {}
        self.page = 250
        self.asked: list[tuple[float, str, dict[str, str]]] = []
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._nonces: set[str] = set()
        self._lock = threading.Lock()
        venue = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))  # the SDK sends {}
                venue._serve(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> Coinbase:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        """Forget accounts, faults and what was asked."""
        with self._lock:
            self.accounts.clear()
            self._faults.clear()
            self.asked.clear()
            self.page = 250

    def add(self, account: Account) -> Account:
        """Register an account."""
        self.accounts[account.name] = account
        return account

    def plan(self, what: str, *faults: Fault) -> None:
        """Let the next requests of ``fills``, ``candles`` or ``key_permissions`` fail so."""
        with self._lock:
            self._faults[what] += faults

    def count(self, what: str) -> int:
        """Return how often something was asked for."""
        return sum(name == what for _, name, _ in self.asked)

    # ---- serving

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        what = parts.path.rsplit("/", 1)[-1]
        with self._lock:
            self.asked.append((time.time(), what, query))
            fault = self._faults[what].pop(0) if self._faults[what] else None
        if fault is not None:
            time.sleep(fault.sleep)
            if not fault.status:
                request.close_connection = True
                request.connection.close()
                return
            self._answer(request, fault.status, fault.body.encode(), fault.headers)
            return
        status, found = self._route(request, parts.path, query)
        self._answer(request, status, json.dumps(found).encode(), {})

    def _answer(
        self, request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def _route(
        self, request: BaseHTTPRequestHandler, path: str, query: dict[str, str]
    ) -> tuple[int, Any]:
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

    def _known(self, request: BaseHTTPRequestHandler, path: str) -> Account | None:
        """Return the account of a JWT that is genuine, for this very path, and new."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
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

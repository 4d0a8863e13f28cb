"""Which network addresses an outgoing call may reach. Pure: tables and comparisons, no network.

Everything is refused that is not plain global unicast, as written down here and, beside that, by
``ipaddress``, whose tables differ between versions of Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_OPENABLE: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",  # carrier-grade NAT
        "::1/128",
        "fc00::/7",
    )
)
"""What a setting may open: this machine, and networks of one's own."""

_UNICAST_6 = IPv6Network("2000::/3")
"""Outside lie loopback, link-local, unique local, multicast, IPv4-mapped and NAT64."""

_REFUSED: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "169.254.0.0/16",  # link-local, metadata of most clouds
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "2001::/23",  # Teredo, ORCHID, benchmarks
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    )
)

_METADATA: frozenset[Address] = frozenset(
    ip_address(text)
    for text in (
        *("169.254.169.254", "100.100.100.200", "168.63.129.16"),
        *("fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
    )
)
"""Where clouds tell machines their secrets; the third lies in public space."""

_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The exceptions that a project makes: networks, and hosts by name."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    def names(self, host: str) -> bool:
        """Whether the host, a name or a literal address, is excepted as it stands."""
        address = literal(host)
        return host in self.hosts if address is None else self.has(address)

    def has(self, address: Address) -> bool:
        """Whether the address lies in a network that is excepted."""
        return is_openable(address) and any(address in network for network in self.networks)

    def permits(self, address: Address, host: str) -> bool:
        """Whether a call to ``host``, which resolves to ``address``, may connect to it."""
        if is_public(address) or self.has(address):
            return True
        return host in self.hosts and is_openable(address)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the host, an address or a name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_public(address: Address) -> bool:
    """Whether the address is global unicast, and nobody's back door."""
    if address in _METADATA or not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv6Address) and address not in _UNICAST_6:
        return False
    return not any(address in network for network in (*_REFUSED, *_OPENABLE))


def is_openable(address: Address) -> bool:
    """Whether a setting may open the address: loopback or private, and no metadata."""
    return address not in _METADATA and any(address in network for network in _OPENABLE)


def literal(host: str) -> Address | None:
    """The address that the host is, in its one right spelling; None for names and oddities."""
    if "%" in host:
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_name(host: str) -> bool:
    """Whether the host is a lower-case ASCII name, whose last label is no number."""
    if len(host) > 253 or not _HOST.fullmatch(host):
        return False
    last = host.rpartition(".")[2]
    return not (last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last))


def problem(entry: object) -> str:
    """What is wrong with an entry of HTTP_ALLOW; empty when nothing is."""
    if not isinstance(entry, str):
        return f"{entry!r} is neither a network nor a host"
    try:
        network = ip_network(entry)
    except ValueError:
        if is_name(entry):
            return ""
        return f"{entry!r} is neither a network like '127.0.0.0/8' nor a host like 'localhost'"
    if _inside(network) and not _only_metadata(network):
        return ""
    return f"{entry!r} is not loopback or private, and only those may be opened"


def _inside(network: Network) -> bool:
    return any(
        network.network_address in one and network.broadcast_address in one for one in _OPENABLE
    )


def _only_metadata(network: Network) -> bool:
    return network.num_addresses == 1 and network.network_address in _METADATA


@lru_cache(maxsize=16)
def allowed(entries: tuple[str, ...]) -> Allowed:
    """The entries of HTTP_ALLOW, which have no ``problem``, as one value."""
    return Allowed(tuple(_networks(entries)), frozenset(e for e in entries if is_name(e)))


def _networks(entries: Iterable[str]) -> Iterable[Network]:
    for entry in entries:
        if not is_name(entry):
            yield ip_network(entry)

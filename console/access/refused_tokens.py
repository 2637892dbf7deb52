"""Limits of rejected tokens: per address, so that others can log in, and for all addresses.

The console sends each token to the API server, so the number must have a limit. Behind a proxy all
viewers come from the proxy's address, and share the limit of one address.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from console.access.rate import Bucket
from console.base.protocols import RefusedError

AT_ONCE: Final = 30
"""Tokens of one address that are rejected in a row before `PER_SECOND` applies."""
PER_SECOND: Final = 1.0
"""Such tokens of one address in a second after that."""

ALL_AT_ONCE: Final = 600
"""The same for all addresses together."""
ALL_PER_SECOND: Final = 20.0
"""Such tokens of all addresses in a second after that."""

MOST_PEERS: Final = 4096
"""Addresses that are remembered. The least recently active ones are dropped first."""


class RefusedTokens:
    """Token buckets for rejections, by address and for all."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Initialize the buckets; `now` is in seconds, of any origin."""
        self._now = now
        self._all = Bucket(ALL_AT_ONCE, ALL_PER_SECOND, now())
        self._peers: OrderedDict[str, Bucket] = OrderedDict()

    def count(self, peer: str) -> None:
        """Count a token that is in review or was rejected. Raises RefusedError beyond the limit."""
        buckets = self._buckets(peer)
        # Both limits are checked before either is charged.
        for bucket in buckets:
            if not bucket.fill(self._now()):
                raise RefusedError(
                    429, "Too many tokens were rejected: try again in a few seconds."
                )
        for bucket in buckets:
            bucket.tokens -= 1

    def take_back(self, peer: str) -> None:
        """Undo `count` for a token that was not rejected."""
        for bucket in self._buckets(peer):
            bucket.tokens += 1

    def _buckets(self, peer: str) -> tuple[Bucket, Bucket]:
        name = network(peer)
        known = self._peers.get(name)
        if known is None:
            known = self._peers[name] = Bucket(AT_ONCE, PER_SECOND, self._now())
            if len(self._peers) > MOST_PEERS:
                self._peers.popitem(last=False)
        self._peers.move_to_end(name)
        return known, self._all


def network(peer: str) -> str:
    """Return the key of an address: for IPv6 its first 64 bits, as a host has all the rest."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    # Peers without a known address share one bucket.
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)

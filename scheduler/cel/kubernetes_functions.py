"""Kubernetes' CEL functions for quantities, versions, IP addresses and networks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Final, TypeVar

from scheduler.cel.errors import EvaluationError, no_overload
from scheduler.cel.evaluation import EvaluationFrame, Function, Functions
from scheduler.cel.operators import tenths
from scheduler.cel.quantities import NANO, Quantity, parse_quantity
from scheduler.cel.values import Value, type_name
from scheduler.cel.versions import Version, normalized, parse_version

T = TypeVar("T")

_Address = IPv4Address | IPv6Address
_Network = IPv4Interface | IPv6Interface


def _parsed(name: str, parse: Callable[[str], Value]) -> Function:
    def evaluate(frame: EvaluationFrame, value: Value) -> Value:
        if not isinstance(value, str):
            raise no_overload(f"{name}({type_name(value)})")
        frame.charge(tenths(len(value)))
        return parse(value)

    return evaluate


def _tested(name: str, parse: Callable[[str], Value]) -> Function:
    def test(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return _parsed(name, test)


def _tolerant(strict: Function, lenient: Function) -> Function:
    """Return the function with an optional second argument that selects the lenient parser."""

    def evaluate(frame: EvaluationFrame, value: Value, normalize: Value = False) -> Value:
        if not isinstance(normalize, bool):
            raise no_overload()
        return (lenient if normalize else strict)(frame, value)

    return evaluate


def _lenient_version(text: str) -> Version:
    return parse_version(normalized(text))


def _compared(name: str, decide: Callable[[int], Value]) -> Function:
    """Return a comparison of two quantities or two versions."""

    def evaluate(frame: EvaluationFrame, one: Value, other: Value) -> Value:
        frame.charge(1)
        # Quantities and versions share these functions, but do not compare with each other.
        if type(one) is not type(other) or not isinstance(one, (Quantity, Version)):
            raise no_overload(f"{name}({type_name(one)}, {type_name(other)})")
        return decide((one > other) - (one < other))

    return evaluate


def _quantity(value: Value, function: str) -> Quantity:
    if not isinstance(value, Quantity):
        raise no_overload(f"{function}({type_name(value)})")
    return value


def _of(cast: Callable[[Value, str], T], name: str, read: Callable[[T], Value]) -> Function:
    """Return a function that reads a value which `cast` has checked."""

    def evaluate(frame: EvaluationFrame, value: Value) -> Value:
        frame.charge(1)
        return read(cast(value, name))

    return evaluate


def _as_integer(quantity: Quantity) -> int:
    if quantity.integer is None:
        raise EvaluationError("cannot convert value to integer")
    return quantity.integer


def _as_float(quantity: Quantity) -> float:
    try:
        return quantity.nano / NANO
    # Go's conversion to float64 has no error; it ends in infinity.
    except OverflowError:
        return float("inf") if quantity.nano > 0 else float("-inf")


def _sum(name: str, sign: int) -> Function:
    def evaluate(frame: EvaluationFrame, one: Value, other: Value) -> Value:
        frame.charge(1)
        quantity = _quantity(one, name)
        # Not isinstance: a bool is an int in Python, and a uint is no argument of add and sub.
        if type(other) is int:
            return quantity.plus(Quantity(other * NANO, other), sign)
        return quantity.plus(_quantity(other, name), sign)

    return evaluate


def _version(value: Value, function: str) -> Version:
    if not isinstance(value, Version):
        raise no_overload(f"{function}({type_name(value)})")
    return value


def _ip(text: str) -> _Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(f"IP Address {text[:64]!r} parse error") from None
    # Kubernetes' IP library rejects zones and IPv4-mapped addresses, which Python parses.
    if "%" in text or (isinstance(address, IPv6Address) and address.ipv4_mapped is not None):
        raise EvaluationError(f"IP Address {text[:64]!r} has a zone, or is IPv4 within IPv6")
    return address


# Python also accepts an address without a prefix, a netmask, and a prefix with leading zeros.
_CIDR: Final = re.compile(r"[^/%]+/(0|[1-9][0-9]{0,2})")


def _cidr(text: str) -> _Network:
    try:
        if not _CIDR.fullmatch(text):
            raise ValueError
        network = ipaddress.ip_interface(text)
    except ValueError:
        raise EvaluationError(f"network address {text[:64]!r} parse error") from None
    # The address has to pass the checks of ip(), too.
    _ip(text.split("/", maxsplit=1)[0])
    return network


def _canonical(text: str) -> bool:
    return str(_ip(text)) == text


def _address(value: Value, function: str) -> _Address:
    # An interface (a CIDR) is a subclass of an address in Python.
    if not isinstance(value, (IPv4Address, IPv6Address)) or hasattr(value, "network"):
        raise no_overload(f"{function}({type_name(value)})")
    return value


def _network(value: Value, function: str) -> _Network:
    if not isinstance(value, (IPv4Interface, IPv6Interface)):
        raise no_overload(f"{function}({type_name(value)})")
    return value


def _contains_ip(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    network = _network(one, "containsIP")
    frame.charge(4)
    address = _ip(other) if isinstance(other, str) else _address(other, "containsIP")
    return address in network.network


def _contains_cidr(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    outer = _network(one, "containsCIDR")
    frame.charge(6)
    inner = _cidr(other) if isinstance(other, str) else _network(other, "containsCIDR")
    return inner.ip in outer.network and outer.network.prefixlen <= inner.network.prefixlen


def _is_global(address: _Address) -> bool:
    # Go's IsGlobalUnicast, which includes private addresses; Python's is_global excludes them.
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    broadcast = str(address) == "255.255.255.255"
    return not (special or address.is_link_local or broadcast)


_LOCAL_GROUPS: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def _local_multicast(address: _Address) -> bool:
    return any(address in group for group in _LOCAL_GROUPS)


FUNCTIONS: Final[Functions] = {
    ("quantity", False): (1, 1, _parsed("quantity", parse_quantity)),
    ("isQuantity", False): (1, 1, _tested("isQuantity", parse_quantity)),
    ("sign", False): (1, 1, _of(_quantity, "sign", lambda q: (q.nano > 0) - (q.nano < 0))),
    ("isGreaterThan", True): (2, 2, _compared("isGreaterThan", lambda result: result > 0)),
    ("isLessThan", True): (2, 2, _compared("isLessThan", lambda result: result < 0)),
    ("compareTo", True): (2, 2, _compared("compareTo", lambda result: result)),
    ("asInteger", True): (1, 1, _of(_quantity, "asInteger", _as_integer)),
    ("isInteger", True): (1, 1, _of(_quantity, "isInteger", lambda q: q.integer is not None)),
    ("asApproximateFloat", True): (1, 1, _of(_quantity, "asApproximateFloat", _as_float)),
    ("add", True): (2, 2, _sum("add", 1)),
    ("sub", True): (2, 2, _sum("sub", -1)),
    ("semver", False): (
        1,
        2,
        _tolerant(_parsed("semver", parse_version), _parsed("semver", _lenient_version)),
    ),
    ("isSemver", False): (
        1,
        2,
        _tolerant(_tested("isSemver", parse_version), _tested("isSemver", _lenient_version)),
    ),
    ("major", True): (1, 1, _of(_version, "major", lambda v: v.numbers[0])),
    ("minor", True): (1, 1, _of(_version, "minor", lambda v: v.numbers[1])),
    ("patch", True): (1, 1, _of(_version, "patch", lambda v: v.numbers[2])),
    ("ip", False): (1, 1, _parsed("ip", _ip)),
    ("isIP", False): (1, 1, _tested("isIP", _ip)),
    ("ip.isCanonical", False): (1, 1, _parsed("ip.isCanonical", _canonical)),
    ("family", True): (1, 1, _of(_address, "family", lambda a: a.version)),
    ("isUnspecified", True): (1, 1, _of(_address, "isUnspecified", lambda a: a.is_unspecified)),
    ("isLoopback", True): (1, 1, _of(_address, "isLoopback", lambda a: a.is_loopback)),
    ("isLinkLocalMulticast", True): (1, 1, _of(_address, "isLinkLocalMulticast", _local_multicast)),
    ("isLinkLocalUnicast", True): (
        1,
        1,
        _of(_address, "isLinkLocalUnicast", lambda a: a.is_link_local),
    ),
    ("isGlobalUnicast", True): (1, 1, _of(_address, "isGlobalUnicast", _is_global)),
    ("cidr", False): (1, 1, _parsed("cidr", _cidr)),
    ("isCIDR", False): (1, 1, _tested("isCIDR", _cidr)),
    ("containsIP", True): (2, 2, _contains_ip),
    ("containsCIDR", True): (2, 2, _contains_cidr),
    ("ip", True): (1, 1, _of(_network, "ip", lambda n: n.ip)),
    ("masked", True): (
        1,
        1,
        _of(_network, "masked", lambda n: ipaddress.ip_interface(n.network)),
    ),
    ("prefixLength", True): (1, 1, _of(_network, "prefixLength", lambda n: n.network.prefixlen)),
}

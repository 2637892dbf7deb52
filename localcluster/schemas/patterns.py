"""Regular expressions and string formats with Go's semantics, run by Python's `re`."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit


class PatternError(ValueError):
    """Go's regexp package (RE2) does not accept the pattern."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern with the text the user wrote."""

    text: str
    matcher: re.Pattern[str]

    def found_in(self, value: str) -> bool:
        """Return True if the pattern matches anywhere in `value`, unanchored."""
        return self.matcher.search(value) is not None


_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(r"\\.|\[:(?P<posix>\w+):\]|\(\?(?P<group><?[=!]|P=|\()|.", re.DOTALL)


def _translate(text: str) -> str:
    """Translate the differences in syntax; reject features that RE2 lacks."""
    out, in_class = [], False
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if token["group"] and not in_class:
            raise PatternError(
                f"error parsing regexp: invalid or unsupported Perl syntax: `{piece}`"
            )
        if re.fullmatch(r"\\[1-9Z]", piece):
            raise PatternError(f"error parsing regexp: invalid escape sequence: `{piece}`")
        if token["posix"] and in_class:
            piece = _POSIX[token["posix"]]
        elif piece == r"\z" or (piece == "$" and not in_class):
            piece = r"\Z"
        elif piece == "[" and in_class:
            piece = r"\["
        elif piece == "[":
            in_class = True
        elif piece == "]":
            in_class = False
        out.append(piece)
    return "".join(out)


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern. Raises PatternError if Go would not compile it."""
    try:
        return Pattern(text, re.compile(_translate(text), re.ASCII))
    except (re.error, KeyError) as error:
        raise PatternError(f"error parsing regexp: {error}") from error


def _succeeds(parser: Callable[[str], object]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            parser(value)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _matches(text: str) -> Callable[[str], bool]:
    matcher = re.compile(text, re.ASCII)
    return lambda value: matcher.fullmatch(value) is not None


def _is_uri(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return value.startswith("/") or bool(parts.scheme)


def _hex(version: str, variant: str) -> Callable[[str], bool]:
    return _matches(
        rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    )


_LABEL = r"[0-9A-Za-z](?:[-0-9A-Za-z]{0,61}[0-9A-Za-z])?"

FORMATS: dict[str, Callable[[str], bool]] = {
    "uri": _is_uri,
    "email": _matches(r"[^@\s<>]+@[^@\s<>]+"),
    "hostname": _matches(rf"{_LABEL}(?:\.{_LABEL})*\.?"),
    "ipv4": _succeeds(ipaddress.IPv4Address),
    "ipv6": _succeeds(ipaddress.IPv6Address),
    "cidr": lambda value: "/" in value and _succeeds(_network)(value),
    "mac": _matches(r"(?i)(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}"),
    "uuid": _hex("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _hex("3", "[0-9a-f]"),
    "uuid4": _hex("4", "[89ab]"),
    "uuid5": _hex("5", "[89ab]"),
    "byte": _succeeds(lambda value: base64.b64decode(value, validate=True)),
    "password": lambda _value: True,
    "date": _succeeds(lambda value: dt.datetime.strptime(value, "%Y-%m-%d").astimezone()),
    "datetime": _matches(
        r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:?\d{2})"
    ),
    "duration": _matches(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+) ?(?:ns|us|µs|μs|ms|s|m|h|d|w))+)"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "k8sshortname": _matches(r"[0-9a-z](?:[-0-9a-z]{0,61}[0-9a-z])?"),
    "k8slongname": lambda value: (
        len(value) <= 253
        and _matches(r"[0-9a-z](?:[-0-9a-z]*[0-9a-z])?(?:\.[0-9a-z](?:[-0-9a-z]*[0-9a-z])?)*")(
            value
        )
    ),
}
# The API server checks these formats. This server cannot, so it rejects schemas that use them.
UNKNOWN_HERE = frozenset(
    {"bsonobjectid", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "rgbcolor"}
)


def _network(value: str) -> object:
    return ipaddress.ip_network(value, strict=False)


def string_format(name: str) -> Callable[[str], bool] | None:
    """Return the check of a string format; None for a name that the API server ignores too."""
    return FORMATS.get(name.replace("-", ""))

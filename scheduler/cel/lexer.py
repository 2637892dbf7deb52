"""Lexer: from the text of a CEL expression to tokens, by the grammar of the language definition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from scheduler.cel.errors import SelectorError

RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
"""Identifiers that CEL reserves: no variable or function may be named so."""

KEYWORDS: Final = frozenset({"true", "false", "null", "in"})

# The first alternative that matches wins: texts with a prefix before names, 1.5 and 1u before 1.
_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:[\t\ \r\n\f]|//[^\n]*)+)
  | (?P<text>[bB]?[rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n\r]*"|'[^'\n\r]*')
      |[bB]?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
      |"(?:\\.|[^\\"\n\r])*"|'(?:\\.|[^\\'\n\r])*'))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<mark>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\"'\\?`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|.)",
    re.DOTALL,
)
_PLAIN: Final[dict[str, str]] = dict(
    zip("abfnrtv\"'\\?`", ("\a", "\b", "\f", "\n", "\r", "\t", "\v", *"\"'\\?`"), strict=True)
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `kind` is text, bytes, float, uint, int, name, mark or end."""

    kind: str
    value: str | bytes
    at: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else f"{self.value!r}"


def tokens(text: str) -> list[Token]:
    """Return all tokens, with an end token last. Raises SelectorError."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise syntax_error(at, f"nothing starts with {text[at]!r}")
        kind = match.lastgroup or ""
        if kind == "text":
            found.append(_literal(match[0], at))
        elif kind != "space":
            found.append(Token(kind, match[0], at))
        at = match.end()
    found.append(Token("end", "", at))
    return found


def syntax_error(at: int, problem: str) -> SelectorError:
    """Return the error at a character. `at` counts from 0, the message from 1."""
    return SelectorError(f"syntax error at character {at + 1}: {problem}")


def _literal(source: str, at: int) -> Token:
    prefix, body = _split(source)
    binary = "b" in prefix
    if "r" not in prefix:
        body = _ESCAPE.sub(lambda found: _unescaped(found, at, binary=binary), body)
    if not binary:
        return Token("text", body, at)
    return Token("bytes", body.encode("utf-8", "surrogateescape"), at)


def _split(source: str) -> tuple[str, str]:
    """Return the prefix in lower case, and the text between the quotes."""
    start = min(source.index(quote) for quote in "\"'" if quote in source)
    wide = 3 if source[start : start + 3] in {'"""', "'''"} and len(source) >= start + 6 else 1
    return source[:start].lower(), source[start + wide : -wide]


_BYTE: Final = 0xDC00
"""Base of the lone surrogates that represent escaped bytes until the text is encoded
(`surrogateescape`)."""


def _unescaped(found: re.Match[str], at: int, *, binary: bool) -> str:
    plain, short, medium, long, octal = found.groups()
    if plain is not None:
        return str(_PLAIN[plain])
    if medium is None and long is None and short is None and octal is None:
        raise syntax_error(at, f"{found[0]!r} is no escape sequence")
    code = int(octal, 8) if octal else int(short or medium or long, 16)
    # In bytes, \xff is one byte; in a text it is the character U+00FF.
    if binary and (short or octal):
        return chr(code) if code < 0x80 else chr(_BYTE + code)
    # Python's chr() accepts surrogates, which are no characters in CEL.
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise syntax_error(at, f"{found[0]!r} names no character")
    return chr(code)

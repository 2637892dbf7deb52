"""Texts of users, made safe for a terminal."""

from typing import Final

LONGEST: Final = 500
"""Characters of a text from the cluster that are shown."""


def clean(text: str, longest: int = LONGEST) -> str:
    """Escape characters that move a cursor, colour or reorder text."""
    shown = text if len(text) <= longest else f"{text[:longest]}…"
    if shown.isprintable():
        return shown
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in shown
    )

"""Texts of users, safe to show on a terminal."""

from typing import Final

LONGEST: Final = 500
"""Characters of a text from the cluster that are shown."""


def clean(text: str, longest: int = LONGEST) -> str:
    """The text without what moves a cursor, colours or reorders: such characters are escaped."""
    shown = text if len(text) <= longest else f"{text[:longest]}…"
    if shown.isprintable():
        return shown
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in shown
    )

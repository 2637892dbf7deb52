"""Groups of bars as a plain SVG picture, one row each, for a comparison of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LEFT: Final = 290
_WIDTH: Final = 860
_BAR: Final = 18
_GAP: Final = 14
_COLOURS: Final = ("#9aa5b1", "#c0392b", "#1b6ca8", "#2e8b57")


def draw(groups: Mapping[str, Mapping[str, float]], unit: str, *, digits: int = 0) -> str:
    """Draw group -> bar -> value, none negative, one positive. A bar keeps its colour."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    largest = max(value for bars in groups.values() for value in bars.values())
    height = 40 + sum(len(bars) * _BAR + _GAP for bars in groups.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">',
        "<style>text { font: 12px sans-serif }</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, name in enumerate(names):
        x = _LEFT + 140 * number
        parts.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{x + 18}" y="21">{name}</text>')
    y = 36
    for title, bars in groups.items():
        middle = y + len(bars) * _BAR / 2 + 4
        parts.append(f'<text x="{_LEFT - 10}" y="{middle}" text-anchor="end">{title}</text>')
        for name, value in bars.items():
            width = value / largest * (_WIDTH - _LEFT - 110)
            parts.append(f'<rect x="{_LEFT}" y="{y + 1}" width="{width:.1f}" height="{_BAR - 3}" '
                         f'fill="{_colour(names.index(name))}"/>')  # fmt: skip
            parts.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + 13}">'
                         f"{value:,.{digits}f} {unit}</text>")  # fmt: skip
            y += _BAR
        y += _GAP
    return "\n".join([*parts, "</svg>", ""])


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]

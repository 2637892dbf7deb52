"""Growth curves as a plain SVG picture, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

Lines = Mapping[str, Sequence[tuple[float, float]]]

_WIDTH: Final = 760
_HEIGHT: Final = 440
_LEFT: Final = 70
_BOTTOM: Final = 60
_COLOURS: Final = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b9770e", "#34495e")


def draw(lines: Lines, across: str, upwards: str) -> str:
    """Draw one line of points (x, y) per name; all numbers are positive."""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    low_x, high_x = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
    low_y, high_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def at(x: float, y: float) -> tuple[float, float]:
        right, up = _WIDTH - _LEFT - 20, _HEIGHT - _BOTTOM - 20
        return (
            _LEFT + (math.log10(x) - low_x) / max(1, high_x - low_x) * right,
            _HEIGHT - _BOTTOM - (math.log10(y) - low_y) / max(1, high_y - low_y) * up,
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        "<style>text { font: 12px sans-serif }</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for power in range(low_x, high_x + 1):
        x, top = at(10**power, 10**high_y)
        _, foot = at(10**power, 10**low_y)
        parts.append(f'<path d="M{x:.1f} {foot:.1f}V{top:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{foot + 18:.1f}" text-anchor="middle">'
                     f"{10**power:,}</text>")  # fmt: skip
    for power in range(low_y, high_y + 1):
        left, y = at(10**low_x, 10**power)
        right, _ = at(10**high_x, 10**power)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">'
                     f"{10.0**power:g}</text>")  # fmt: skip
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (at(*point) for point in points))
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{_LEFT + 12}" y="{34 + 16 * number}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 14}" text-anchor="middle">{across}</text>')
    parts.append(f'<text x="16" y="{_HEIGHT / 2}" text-anchor="middle" '
                 f'transform="rotate(-90 16 {_HEIGHT / 2})">{upwards}</text>')  # fmt: skip
    return "\n".join([*parts, "</svg>", ""])

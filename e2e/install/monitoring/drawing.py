"""The dashboard's panels as one SVG picture, from Prometheus' responses to their queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]

_COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b9770e", "#34495e")
_COLUMNS = 3
_WIDTH, _HEIGHT = 400, 190
_LEFT, _TOP, _RIGHT, _FOOT = 46, 28, 10, 40
_NAMED = 5
_STYLE = "text { font: 10px sans-serif; fill: #444 } .t { font: bold 12px sans-serif }"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One panel: its title, unit, and lines of (seconds since 1970, value) by legend."""

    title: str
    unit: str
    lines: dict[str, Points]


def sheet(panels: Sequence[Drawn], start: float, end: float) -> str:
    """Return all panels, three in a row."""
    rows = -(-len(panels) // _COLUMNS)
    size = f"0 0 {_COLUMNS * _WIDTH} {rows * _HEIGHT}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}">',
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = number % _COLUMNS * _WIDTH, number // _COLUMNS * _HEIGHT
        parts.append(f'<g transform="translate({x} {y})">')
        parts += _panel(panel, start, end)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Drawn, start: float, end: float) -> Iterator[str]:
    top = max((value for points in panel.lines.values() for _, value in points), default=0) or 1.0
    high, wide = _HEIGHT - _TOP - _FOOT, _WIDTH - _LEFT - _RIGHT
    yield f'<text class="t" x="8" y="18">{escape(panel.title)}</text>'
    for share in (0, 0.5, 1):
        y = _TOP + high * (1 - share)
        yield f'<path d="M{_LEFT} {y:.1f}h{wide}" stroke="#ddd"/>'
        label = f"{top * share:.3g} {panel.unit}".strip()
        yield f'<text x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{escape(label)}</text>'
    # Only the highest lines get a legend; all are drawn.
    order = sorted(panel.lines, key=lambda name: -max(v for _, v in panel.lines[name]))
    for number, name in enumerate(order):
        colour = _COLOURS[number % len(_COLOURS)]
        path = "L".join(
            f"{_LEFT + (at - start) / (end - start) * wide:.1f} "
            f"{_TOP + high * (1 - max(value, 0.0) / top):.1f}"
            for at, value in panel.lines[name]
        )
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    x = 8.0
    for number, name in enumerate(order[:_NAMED]):
        yield (
            f'<text x="{x:.0f}" y="{_HEIGHT - 20 + 12 * (number % 2)}" '
            f'style="fill: {_COLOURS[number % len(_COLOURS)]}">{escape(name[:34])}</text>'
        )
        x += 130 if number % 2 else 0

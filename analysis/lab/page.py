"""The report as one HTML file with its plots. It loads nothing, and equal results give equal files.

Needs matplotlib, which the extra `lab` installs.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from analysis.lab.errors import LabError
from analysis.lab.report import reference_text, table_cells
from analysis.lab.results import Domains, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child { text-align: left; font-weight: normal; }
figure { margin: 1.5rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
"""
_GREY: Final = "#888888"
# Fixed for equal output: by default matplotlib salts the IDs in an SVG at random.
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "muster",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _GREY,
    "axes.titlecolor": _GREY,
    "text.color": _GREY,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "legend.frameon": False,
}


def page(results: Sequence[Result], title: str) -> str:
    """Return the complete file. Raises LabError if matplotlib is not installed."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *_table(results),
        *(
            f"<figure>{svg}<figcaption>{escape(text)}</figcaption></figure>"
            for svg, text in _plots(results)
        ),
        f"<p>{escape(reference_text(results[0]))}</p>",
        "</body></html>",
        "",
    ]
    return "\n".join(parts)


def _table(results: Sequence[Result]) -> Iterator[str]:
    head, *rows = table_cells(results)
    yield "<table><thead><tr>"
    yield "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    yield "</tr></thead><tbody>"
    for label, *cells in rows:
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield f'<tr><th scope="row">{escape(label)}</th>{values}</tr>'
    yield "</tbody></table>"


def _plots(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    for index, resource in enumerate(results[0].resources):
        name = resource.name
        yield (
            lines(
                [(each.variant, each.span, each.resources[index].over_time) for each in results],
                f"{name} used",
            ),
            f"Share of {name} that pods used, over time.",
        )
        if any(max(each.resources[index].partial_over_time, default=0) for each in results):
            curves = [
                (each.variant, each.span, each.resources[index].partial_over_time)
                for each in results
            ]
            yield (
                lines(curves, f"{name} used by incomplete jobs"),
                f"Share of {name} used by jobs that did not run because pods were missing.",
            )
    busiest = max(results[0].resources, key=lambda each: each.used).name
    for index, domains in enumerate(results[0].domains):
        yield (
            _bands([(each.variant, each.domains[index]) for each in results], busiest),
            f"Share of {busiest} used in the domains of {domains.key}: minimum, median, maximum.",
        )
    yield (
        lines(
            [(each.variant, _period(each), each.fragmentation.over_time) for each in results],
            "fragmented",
        ),
        "Share of the free capacity that no further pod could use, over time.",
    )
    yield _bars(results), "90th percentile of the wait of jobs, by their number of pods."


def _period(result: Result) -> float:
    times = result.fragmentation.times
    return times[1] - times[0] if len(times) > 1 else 1.0


def lines(curves: Sequence[tuple[str, float, Sequence[float]]], label: str) -> str:
    """Return an SVG of shares over time.

    Each curve has the variant's name, the seconds of one span, and the shares. Raises LabError if
    matplotlib is not installed.
    """

    def draw(axes: Axes) -> None:
        for variant, span, values in curves:
            hours = [index * span / 3600 for index in range(len(values))]
            axes.step(
                hours,
                [value * 100 for value in values],
                where="post",
                label=variant,
                linewidth=1.2,
            )
        _over_hours(axes, label)

    return _svg(draw)


def _bands(curves: Sequence[tuple[str, Domains]], resource: str) -> str:
    def draw(axes: Axes) -> None:
        for variant, domains in curves:
            shares = np.array(list(domains.over_time[resource].values())) * 100
            hours = np.arange(shares.shape[1]) * domains.span / 3600
            median = np.median(shares, axis=0)
            (line,) = axes.step(hours, median, where="post", label=variant, linewidth=1.2)
            axes.fill_between(
                hours, shares.min(axis=0), shares.max(axis=0), step="post",
                color=line.get_color(), alpha=0.12, linewidth=0,
            )  # fmt: skip
        _over_hours(axes, f"{resource} used")

    return _svg(draw)


def _over_hours(axes: Axes, label: str) -> None:
    axes.set_xlabel("hours")
    axes.set_ylabel(f"{label}, %")
    axes.set_ylim(bottom=0)
    axes.legend()


def _bars(results: Sequence[Result]) -> str:
    sizes = list(dict.fromkeys(size for result in results for size in result.wait_by_size))

    def draw(axes: Axes) -> None:
        width = 0.8 / len(results)
        for number, result in enumerate(results):
            found = [result.wait_by_size.get(size) for size in sizes]
            heights = [0.0 if each is None else each.p90 / 3600 for each in found]
            places = [
                index + (number - (len(results) - 1) / 2) * width for index in range(len(sizes))
            ]
            axes.bar(places, heights, width, label=result.variant)
        axes.set_xticks(range(len(sizes)), [f"{size} pods" for size in sizes])
        axes.set_ylabel("wait, P90, hours")
        axes.legend()

    return _svg(draw)


def _svg(draw: Callable[[Axes], None]) -> str:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise LabError("the HTML report needs matplotlib: pip install 'muster[lab]'") from error
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(9, 2.8), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        written = io.StringIO()
        figure.savefig(
            written, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = written.getvalue()
    return text[text.index("<svg") :]

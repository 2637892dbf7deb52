"""Generator of the column `meaning` on the page of metrics: `python -m tools.metrics_page FILE`.

The text is the help of each metric, as a scrape shows it. Order, labels and the text around the
tables are written by hand.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric

import kube.base.metrics
import scheduler.support.metrics
import webhooks.reviews.metrics
from kube.base.clock import SystemClock
from kube.concurrency.freeze import Freeze
from scheduler.core.state.state import State
from scheduler.state_metrics import StateMetrics
from scheduler.support.wait_times import GangTimes

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

_MODULES: Final = (kube.base.metrics, scheduler.support.metrics, webhooks.reviews.metrics)
_ROW: Final = re.compile(r"^(\| `(muster_\w+)` \| [^|]* \| ).*( \|)$", re.MULTILINE)


class Exported(NamedTuple):
    """A metric that Muster exports, under its name in a scrape."""

    name: str
    labels: frozenset[str]
    text: str
    histogram: bool


def exported() -> Iterator[Exported]:
    """Yield every metric of all processes, read from the code."""
    state = State()
    times = GangTimes(state, SystemClock())
    for family in StateMetrics(state, times, Freeze(), ["zone"]).metrics():
        yield _exported(family, getattr(family, "_labelnames", ()))
    for module in _MODULES:
        for each in vars(module).values():
            if isinstance(each, Counter | Gauge | Histogram):
                (family,) = each.describe()
                yield _exported(family, each._labelnames)  # noqa: SLF001 - no public name


def _exported(family: Metric, labels: Iterable[str]) -> Exported:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return Exported(name, frozenset(labels), family.documentation, family.type == "histogram")


def page(text: str) -> str:
    """Return the page with the help of each metric in its row."""
    texts = {each.name: each.text.replace("<", "&lt;") for each in exported()}
    return _ROW.sub(lambda row: f"{row[1]}{texts.get(row[2], '')}{row[3]}", text)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(PAGE.read_text("utf-8")))

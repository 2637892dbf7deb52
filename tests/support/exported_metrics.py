"""Every metric that Muster exports, read from its own code."""

from tools import metrics_page


def exported() -> dict[str, frozenset[str]]:
    """Return the names of the metrics, counters with `_total`, and their label names."""
    return {each.name: each.labels for each in metrics_page.exported()}


def series() -> dict[str, frozenset[str]]:
    """Return the same by the names in which Prometheus stores them: histograms have three."""
    found: dict[str, frozenset[str]] = {}
    for each in metrics_page.exported():
        if each.histogram:
            found |= {f"{each.name}_count": each.labels, f"{each.name}_sum": each.labels}
            found[f"{each.name}_bucket"] = each.labels | {"le"}
        else:
            found[each.name] = each.labels
    return found

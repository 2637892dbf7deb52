"""manifests/monitoring and the pages about it name only metrics that Muster exports."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.structure.graph import ROOT
from tests.support.exported_metrics import exported, series

FOLDER = ROOT / "manifests" / "monitoring"
DOCS = ROOT / "docs"

_METRIC = re.compile(r"\bmuster[_:][\w:]+")
_SELECTORS = re.compile(r"\{([^}]*)\}")
_BY = re.compile(r"\bby \(([^)]*)\)")
_LABEL = re.compile(r"(\w+)\s*=~?")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_RENAMED = re.compile(r"^\| (`muster_.*) \| (`muster_.*) \|$", re.MULTILINE)
_ROW = re.compile(r"^\| `(muster_\w+)` \| ([^|]*) \|", re.MULTILINE)


def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


_ALL = [rule for group in load("rules.yaml")["groups"] for rule in group["rules"]]
RULES = {rule["alert"]: rule for rule in _ALL if "alert" in rule}
RECORDED = [rule for rule in _ALL if "record" in rule]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str, str]]:
    """Yield the location, the expression, and the text that names labels of its result."""
    for name, rule in RULES.items():
        yield name, rule["expr"], ""
    for rule in RECORDED:
        yield rule["record"], rule["expr"], ""
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


@pytest.mark.parametrize(("where", "expression", "legend"), list(expressions()))
def test_what_an_alert_or_panel_asks_for_is_exported(
    where: str, expression: str, legend: str
) -> None:
    recorded = {rule["record"]: frozenset({"slo"}) for rule in RECORDED}
    known, names = series() | recorded, set(_METRIC.findall(expression))
    grouped = {each.strip() for found in _BY.findall(expression) for each in found.split(",")}
    asked = {each for found in _SELECTORS.findall(expression) for each in _LABEL.findall(found)}

    assert names or expression.startswith("vector(")
    assert names <= known.keys(), where
    labels = frozenset[str]().union(*(known[name] for name in names))
    assert grouped | asked <= labels, where
    assert set(_LEGEND.findall(legend)) <= grouped, where


def test_the_operators_rules_are_the_plain_ones() -> None:
    assert load("prometheus-rule.yaml")["spec"] == load("rules.yaml")


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_alert_has_a_test_that_it_fires_and_one_that_it_clears(name: str) -> None:
    [case] = [each for each in load("rules_test.yaml")["tests"] if each["name"] == name]
    checks = [each for each in case["alert_rule_test"] if each["alertname"] == name]

    assert [bool(each["exp_alerts"]) for each in checks] == [True, False]


def test_the_page_about_upgrades_names_metrics_that_are_exported_and_those_that_are_not() -> None:
    page = (DOCS / "upgrade.md").read_text()
    rows = _RENAMED.findall(page)
    known = exported()

    assert len(rows) > 10
    for old, new in rows:
        (name,) = _METRIC.findall(new)
        labels = {each for found in _SELECTORS.findall(new) for each in found.split(",")}
        assert labels <= known[name], new
        assert old != new
        for before in _METRIC.findall(old):
            gone = {each for found in _SELECTORS.findall(old) for each in found.split(",")}
            assert not gone or not gone <= known.get(before, frozenset()), old
            assert gone or before not in known, old


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_alert_has_a_severity_and_a_section_that_says_what_to_do(name: str) -> None:
    rule, page = RULES[name], (DOCS / "alerts.md").read_text()
    section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]

    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
    assert "**Means**" in section
    assert "**Do**" in section


def test_the_page_has_no_section_of_an_alert_that_is_gone() -> None:
    headings = re.findall(r"^### (\w+)$", (DOCS / "alerts.md").read_text(), re.MULTILINE)

    assert sorted(headings) == sorted(RULES)


def test_the_page_of_metrics_has_each_with_its_labels() -> None:
    rows = dict(_ROW.findall((DOCS / "metrics.md").read_text()))
    told = {name: frozenset(re.findall(r"`(\w+)`", labels)) for name, labels in rows.items()}

    assert told == exported()


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_no_page_names_a_metric_that_is_not_exported(path: Any) -> None:
    text = _RENAMED.sub(r"\2", path.read_text())  # for a renamed metric its new name
    named = set(re.findall(r"`(muster_[a-z_]+)[`{]", text))

    assert named <= exported().keys() | series().keys()


def test_the_dashboard_can_be_loaded() -> None:
    """Grafana requires unique IDs and positions for each panel."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert DASHBOARD["uid"] == "muster"
    assert len(ids) == len(set(ids))
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) - {"__rate_interval"}
    assert used == variables


def test_each_metric_is_in_an_alert_or_on_the_dashboard_or_said_to_be_for_debugging() -> None:
    shown = {name for _, text, _ in expressions() for name in _METRIC.findall(text)}
    bases = {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    page = (DOCS / "metrics.md").read_text().partition("\n## For debugging\n")[2]

    assert exported().keys() - bases - shown == {name for name, _ in _ROW.findall(page)}

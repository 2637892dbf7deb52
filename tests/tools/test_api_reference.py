"""The reference page: committed as generated, with every field and every rule."""

from pathlib import Path

from api.rules import table
from tools.api_reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "api-reference.md"


def test_the_committed_page_is_as_the_code_says() -> None:
    assert PAGE.read_text() == reference(), "docs/api-reference.md is stale: run make generate"


def test_every_kind_version_and_rule_has_its_place() -> None:
    page = reference()

    for title in (
        "### Workload v1alpha3, the version that is stored",
        "### Workload v1alpha2\n",
        "### Workload v1alpha1\n",
        "### PodGroup v1alpha2\n",
        "### CompositePodGroup v1alpha3, the version that is stored",
        "## PodGroup.coscheduling.muster.dev",
        "## Reservation.scheduling.muster.dev",
    ):
        assert title in page
    assert all(f"| {rule.id} |" in page for rule in table.ALL)


def test_a_tree_of_templates_is_listed_once() -> None:
    lines = reference().splitlines()

    deep = [line for line in lines if "compositePodGroupTemplates[].compositePodGroupTem" in line]
    assert len(deep) == 1


def test_no_cell_breaks_its_row() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("|")]

    assert all(line.endswith(" |") or set(line) <= set("|-") for line in rows)

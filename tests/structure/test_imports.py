"""The import graph: no circle anywhere, and a core that needs only numpy."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.structure import graph

INSTALLED = (
    "analysis", "api", "certs", "cli", "conformance", "console", "controllers", "kube",
    "localcluster", "scheduler", "webhooks",
)  # fmt: skip


def test_no_modules_import_each_other_in_a_ring() -> None:
    assert graph.circle(graph.imports(*graph.PACKAGES)) == []


def test_no_folders_import_each_other_in_a_ring() -> None:
    """The rule applies even if no two modules do: a folder is read after those that it imports."""
    assert graph.circle(graph.folders(*INSTALLED)) == []


def test_a_ring_of_folders_is_found_where_one_is_made_on_purpose() -> None:
    edges = graph.folders(*INSTALLED)
    edges["scheduler/queue"] = {*edges["scheduler/queue"], "scheduler/cycle"}
    assert {"scheduler/queue", "scheduler/cycle"} <= {*graph.circle(edges)}


@pytest.mark.parametrize(
    ("edges", "want"),
    [
        pytest.param({"a": {"b"}, "b": set()}, [], id="a line"),
        pytest.param({"a": {"b", "c"}, "b": {"c"}, "c": set()}, [], id="two ways to one module"),
        pytest.param({"a": {"b"}, "b": {"a"}}, ["a", "b", "a"], id="two modules"),
        pytest.param(
            {"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c", "b"], id="a ring further down"
        ),
    ],
)
def test_rings_are_found(edges: dict[str, set[str]], want: list[str]) -> None:
    assert graph.circle(edges) == want


def test_imports_for_type_checking_and_inside_functions_count(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "if TYPE_CHECKING:\n    from scheduler.core.state import state\n"
        "def later():\n    import scheduler.core.search.place\n    from os import path\n"
    )
    known = {"scheduler.core.state.state", "scheduler.core.search.place"}
    assert set(graph.imported(source, known)) == known


def test_the_core_needs_numpy_alone(tmp_path: Path) -> None:
    """The test's import path has only a folder with numpy and the core."""
    for folder in Path(np.__file__).parents[1].glob("numpy*"):
        (tmp_path / folder.name).symlink_to(folder)
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "core").symlink_to(graph.ROOT / "scheduler" / "core")
    names = sorted(name for name in graph.modules("scheduler") if name.startswith("scheduler.core"))
    program = f"import sys; sys.path.append({str(tmp_path)!r})\n"
    program += "".join(f"import {name}\n" for name in names)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(names) > 40

"""Each plugin has one module and one table of tests, and kube-scheduler's name leads to both."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.structure.graph import ROOT

CORE = ROOT / "scheduler" / "core"
TESTS = ROOT / "tests" / "scheduler" / "core"

# Of kube-scheduler's default plugins those that filter or score, and that have a module here.
DEFAULTS = (
    "DynamicResources", "InterPodAffinity", "NodeAffinity", "NodeName", "NodePorts",
    "NodeResourcesFit", "NodeUnschedulable", "NodeVolumeLimits", "PodTopologySpread",
    "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
)  # fmt: skip


@cache
def modules() -> dict[Path, str]:
    """Return the docstring of each module of the core."""
    sources = ((path, path.read_text("utf-8")) for path in CORE.rglob("*.py"))
    return {path: ast.get_docstring(ast.parse(source)) or "" for path, source in sources}


@pytest.mark.parametrize("plugin", DEFAULTS)
def test_a_plugin_of_kube_scheduler_has_one_module_and_one_test_file(plugin: str) -> None:
    named = [path for path, text in modules().items() if text.startswith(f"{plugin}: ")]
    assert len(named) == 1, named
    module = named[0].relative_to(CORE)
    tree = ast.parse((TESTS / module.parent / f"test_{module.name}").read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert any(isinstance(n, functions) and n.name.startswith("test_") for n in tree.body)

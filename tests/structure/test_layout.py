"""Each plug-in has one module and one table of tests, and kube-scheduler's name leads to both."""

import ast

import pytest

from tests.structure.graph import ROOT

PLUGINS = ROOT / "scheduler" / "core" / "plugins"
TESTS = ROOT / "tests" / "scheduler" / "core" / "plugins"

# Of kube-scheduler's default plug-ins those that filter or score, and that have a module here.
DEFAULTS = (
    "DynamicResources", "InterPodAffinity", "NodeAffinity", "NodeName", "NodePorts",
    "NodeResourcesFit", "NodeUnschedulable", "NodeVolumeLimits", "PodTopologySpread",
    "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
)  # fmt: skip
# What VolumeBinding is made of besides its own module.
HELPERS = {"volume_matching", "volume_node_affinity"}

MODULES = {path.stem: path for path in PLUGINS.glob("*.py") if path.stem != "__init__"}


def first_line(module: str) -> str:
    text = ast.get_docstring(ast.parse(MODULES[module].read_text("utf-8"))) or ""
    return text.partition("\n")[0]


def test_each_plugin_has_its_test_file_and_no_other_is_there() -> None:
    files = {path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")}

    assert files == MODULES.keys()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_test_file_has_tests(module: str) -> None:
    tree = ast.parse((TESTS / f"test_{module}.py").read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)

    assert any(isinstance(n, functions) and n.name.startswith("test_") for n in tree.body)


@pytest.mark.parametrize("plugin", DEFAULTS)
def test_a_plugin_of_kube_scheduler_is_named_first_in_one_module(plugin: str) -> None:
    found = [name for name in MODULES if first_line(name).startswith(f"{plugin}: ")]

    assert len(found) == 1, found


def test_every_other_module_helps_a_plugin() -> None:
    named = {name for name in MODULES if first_line(name).partition(": ")[0] in DEFAULTS}

    assert MODULES.keys() - named == HELPERS

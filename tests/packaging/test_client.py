"""The wheel of the client: the package alone, and it works with its own dependencies alone."""

import importlib.metadata
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.environment import ROOT, Environment, build, names

PROJECT = ROOT / "clients" / "python"


def required(requirements: Iterable[str], found: set[str]) -> set[str]:
    """Add the distributions of the requirements to `found`, with all that they require."""
    for requirement in map(Requirement, requirements):
        name = canonicalize_name(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and name not in found:
            found.add(name)
            required(importlib.metadata.requires(name) or (), found)
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(PROJECT, tmp_path_factory.mktemp("client-wheel"))


def test_the_wheel_holds_the_package_and_its_types(wheel: Path) -> None:
    sources = {str(path.relative_to(PROJECT)) for path in PROJECT.glob("muster_client/*.py")}

    assert names(wheel) == sources | {"muster_client/py.typed"}


def test_the_client_needs_what_it_declares_and_nothing_of_muster(
    wheel: Path, tmp_path: Path
) -> None:
    (declared,) = importlib.metadata.distributions(path=[str(wheel)])
    environment = Environment.create(tmp_path)
    environment.lend(required(declared.requires or (), set()))
    environment.install(wheel)
    code = (
        "import sys, muster_client.aio as aio\n"
        "made = aio.Client.connect('nowhere')\n"
        "made.close()\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )

    said = environment.run("python", "-c", code)

    assert said.returncode == 0, said.stderr
    loaded = set(said.stdout.split())
    assert "muster_client" in loaded
    assert not loaded & {"api", "kube", "msgspec", "structlog", "numpy"}

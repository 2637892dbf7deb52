"""The wheel: its contents, and its function in an environment without the checkout.

The tests' own environment, which matches the lock, provides its dependencies, but only those in
`requirements/runtime.txt`, so the wheel must not need others.
"""

import importlib.metadata
import json
import shutil
import signal
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name

from cli.commands import COMMANDS
from tests.packaging.environment import ROOT, Environment, build, locked, names

PACKAGES = {
    "api",
    "kube",
    "certs",
    "webhooks",
    "controllers",
    "scheduler",
    "analysis",
    "console",
    "cli",
}
Said = dict[str, list[Any]]
OTHERS = {"conformance", "localcluster", "manifests", "examples", "e2e", "tests", "tools"}
PROCESSES = ("webhook", "controller", "scheduler", "all")


def sent_to_the_image() -> list[str]:
    """Return the files and folders that `.dockerignore` includes."""
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def cluster_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "localcluster", tmp_path_factory.mktemp("cluster-wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment.create(tmp_path_factory.mktemp("environment"))
    environment.lend(locked("runtime.txt"))
    environment.install(wheel)
    return environment


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig whose server is down: its port is bound, but does not listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        path = tmp_path / "kubeconfig"
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "gone", "cluster": {"server": server}}],
            "users": [{"name": "gone", "user": {"token": "t"}}],
            "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "gone"}}],
            "current-context": "gone",
        }
        path.write_text(yaml.safe_dump(text))
        yield path


def test_the_wheel_holds_our_packages_and_nothing_else(wheel: Path) -> None:
    inside = names(wheel)

    assert {name.partition("/")[0] for name in inside} == PACKAGES
    modules = {name for name in inside if name.endswith(".py")}
    sources = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    assert modules == {str(path.relative_to(ROOT)) for path in sources}
    data = {str(Path(name).parent) for name in inside if name.endswith((".yaml", "Kustomization"))}
    overlays = {"overlays/cert-manager", "overlays/single"}
    manifests = {"base", "console", "crd", "monitoring", "protection"} | overlays
    ours = {f"cli/manifests/{folder}" for folder in manifests}
    gitops = {f"cli/examples/gitops/{tool}" for tool in ("argocd", "flux")}
    examples = {"cli/examples", "cli/examples/lab", *gitops}
    assert data == {"webhooks/manifests/webhook"} | examples | ours
    page = (ROOT / "console" / "static").rglob("*")
    files = {str(path.relative_to(ROOT)) for path in page if path.is_file()}
    assert files <= inside
    assert {"console/static/index.html", "console/static/js/main.js"} <= files


def test_the_image_gets_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """A folder that `.dockerignore` excludes is silently absent from the image's wheel."""
    context = tmp_path / "context"
    context.mkdir()
    for name in sent_to_the_image():
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, context / name, ignore=ignored)
        else:
            (context / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, context / name)

    assert names(build(context, tmp_path / "wheel")) == names(wheel)


def test_the_wheel_of_the_conformance_kit_holds_its_scenarios(tmp_path: Path) -> None:
    inside = names(build(ROOT / "conformance", tmp_path))

    scenarios = {path.name for path in (ROOT / "conformance" / "scenarios").glob("*.yaml")}
    assert {f"conformance/scenarios/{name}" for name in scenarios} <= inside
    assert {name.partition("/")[0] for name in inside} == {"conformance"}
    assert not [name for name in inside if name.endswith(".toml")]


def test_the_wheel_of_the_embedded_cluster_holds_that_and_not_its_tests(
    cluster_wheel: Path,
) -> None:
    inside = names(cluster_wheel)

    assert {"localcluster/__main__.py", "localcluster/definitions/kubernetes.txt"} <= inside
    assert {name.partition("/")[0] for name in inside} == {"localcluster"}
    assert not [name for name in inside if "tests/" in name or name.endswith((".toml", ".md"))]


def test_what_the_image_installs_stays_small() -> None:
    """A client library with a model for each field of each API is half an image by itself."""
    installed = [importlib.metadata.distribution(name) for name in locked("runtime.txt")]
    files = [Path(str(it.locate_file(file))) for it in installed for file in it.files or ()]
    kept = {path for path in files if path.suffix != ".pyc" and "tests" not in path.parts}
    size = sum(path.stat().st_size for path in kept if path.is_file())

    assert "kubernetes" not in {canonicalize_name(name) for name in locked("runtime.txt")}
    assert size < 125_000_000, f"{size / 1e6:.0f} MB"


def test_no_locked_dependency_owns_a_top_level_name_of_ours() -> None:
    ours = {path.parent.name for path in ROOT.glob("[a-z]*/*.py")}
    assert ours >= PACKAGES | {"localcluster", "e2e", "tests", "tools"}
    dependencies = {canonicalize_name(name) for name in locked("dev.txt")}
    owners = {
        name: {canonicalize_name(owner) for owner in found} & dependencies
        for name, found in importlib.metadata.packages_distributions().items()
    }
    # Their names differ from those of the distributions, so the comparison is meaningful.
    assert "pyyaml" in owners["yaml"]
    assert owners["mypy_extensions"] == {"mypy-extensions"}

    assert {name: owners[name] for name in ours | OTHERS if owners.get(name)} == {}


def test_nothing_of_the_checkout_can_be_imported(installed: Environment) -> None:
    """Every other test here relies on this."""
    code = (
        "import importlib.util, sys\n"
        "found = {n: importlib.util.find_spec(n) for n in sys.argv[1:]}\n"
        "print(*sys.path, sep='\\n')\n"
        "print(*(f'{n}={s and s.origin}' for n, s in found.items()), sep='\\n')\n"
    )
    said = installed.run("python", "-c", code, *sorted(PACKAGES | OTHERS))

    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert {name for name, origin in found.items() if origin != "None"} == PACKAGES
    for name in PACKAGES:
        assert Path(found[name]).is_relative_to(installed.site)
    paths = [Path(line).resolve() for line in lines if line and "=" not in line]
    assert not [path for path in paths if path.is_relative_to(ROOT)]


def test_the_command_writes_all_manifests_of_the_checkout(
    installed: Environment, tmp_path: Path
) -> None:
    folder = tmp_path / "manifests"
    said = installed.run("muster", "manifests", f"--output={folder}")

    assert said.returncode == 0, said.stderr
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert "monitoring/dashboard.json" in written
    for name in written:
        assert (folder / name).read_bytes() == (ROOT / "manifests" / name).read_bytes()
    kustomizations = {str(path) for path in written if "ustomization" in path}
    named = yaml.safe_load((folder / "base" / "kustomization.yaml").read_text())["resources"]
    assert {"base/kustomization.yaml", "overlays/single/kustomization.yaml"} <= kustomizations
    assert all((folder / "base" / name).exists() for name in named)


def test_the_processes_find_what_comes_with_the_wheel(installed: Environment) -> None:
    code = (
        "from cli.demo.demo import EXAMPLES, MANIFESTS\n"
        "from cli.manifests.packaged_manifests import definitions, roles\n"
        "from webhooks.server.registration import load_manifests\n"
        "print(len(load_manifests()), len([*EXAMPLES.glob('*')]), len([*MANIFESTS.glob('*')]),"
        " len(definitions()) > 4, len(roles()) > 9)"
    )
    said = installed.run("python", "-c", code)

    assert said.returncode == 0, said.stderr
    # The wheel leaves out the programs among the examples.
    examples = {path.relative_to(ROOT).parts[1] for path in (ROOT / "examples").rglob("*.yaml")}
    counts = [len(examples), len([*(ROOT / "manifests/crd").glob("*")])]
    assert said.stdout.split() == ["2", *map(str, counts), "True", "True"]


HELP = ("", *PROCESSES, *COMMANDS, "lab run", "lab record")
CLUSTER = ("demo", "localcluster --kubeconfig k")

# Runs commands in one process, because startup and imports dominate the time of each.
RUN = """
import contextlib, io, json, sys
from cli.main import main
commands, sys.argv = json.loads(sys.argv[1]), ["muster"]
for command in commands:
    said, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        try:
            code = main(command.split())
        except SystemExit as end:
            code = end.code
    print(json.dumps([command, [code, said.getvalue(), errors.getvalue()]]))
"""


@pytest.fixture(scope="module")
def said(installed: Environment) -> Said:
    """Exit code, output and errors of commands that need no server."""
    commands = [*(f"{name} --help" for name in HELP), *PROCESSES, *CLUSTER]
    commands += ["version", "--version"]
    done = installed.run("python", "-c", RUN, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("command", HELP)
def test_help_is_given(said: Said, command: str) -> None:
    code, output, errors = said[f"{command} --help"]

    assert (code, errors) == (0, "")
    assert "Usage: muster" in output or "usage: muster" in output


@pytest.mark.parametrize("command", ["version", "--version"])
def test_the_version_and_the_commit_are_printed(said: Said, command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    # A wheel that was built in a checkout has no commit: an archive or an image records it.
    assert said[command] == [0, f"muster {project['version']}, commit unknown\n", ""]


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_without_a_kubeconfig_says_which_file_it_looked_for(
    installed: Environment, said: Said, process: str
) -> None:
    wanted = installed.folder / ".kube" / "config"

    code, output, errors = said[process]
    starting, error = errors.splitlines()
    assert json.loads(starting)["event"] == "starting"
    assert (code, output) == (2, "")
    assert error == f"muster: kubeconfig {wanted}: no such file"


@pytest.mark.parametrize(
    "process", ["all", *(pytest.param(name, marks=pytest.mark.long) for name in PROCESSES[:3])]
)
def test_a_process_without_a_server_says_so_and_waits_for_it(
    installed: Environment, kubeconfig: Path, process: str
) -> None:
    config = kubeconfig.with_name("config")
    config.write_text("webhook: {drainSeconds: 0, port: 0}")
    files = ["--kubeconfig", str(kubeconfig), "--config", str(config)]
    command = [str(installed.bin / "muster"), process, *files]
    with subprocess.Popen(
        command,
        cwd=installed.folder,
        env=installed.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        assert started.stdout is not None
        said = []
        for line in started.stdout:
            said.append(line)
            if "Connection refused" in line:
                started.send_signal(signal.SIGTERM)
                break
        said += started.stdout.readlines()

    assert started.returncode == 0, said
    assert any("Connection refused" in line for line in said)
    assert not [line for line in said if "Traceback" in line or "Error:" in line]


@pytest.mark.parametrize("command", CLUSTER)
def test_what_needs_the_embedded_cluster_says_how_to_get_it(said: Said, command: str) -> None:
    words = (
        "muster: the embedded cluster is not installed: use `pip install muster[demo]`, or"
        " `make .venv` in a checkout.\n"
    )

    assert said[command] == [2, "", words]


@pytest.mark.long
def test_with_the_embedded_cluster_the_demo_runs(
    wheel: Path, cluster_wheel: Path, tmp_path: Path
) -> None:
    environment = Environment.create(tmp_path)
    environment.lend(locked("dev.txt"))
    environment.install(wheel)
    environment.install(cluster_wheel)

    said = environment.run("muster", "demo")

    assert said.returncode == 0, said.stdout + said.stderr

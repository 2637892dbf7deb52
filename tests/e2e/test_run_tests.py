"""What a run does where the real control plane cannot be built."""

from collections.abc import Sequence

import pytest

from e2e import run_tests
from e2e.controlplane import build
from e2e.controlplane.errors import BuildError, MissingGoError


@pytest.mark.parametrize(
    ("error", "required", "word", "code"),
    [
        (MissingGoError("no Go, and no network"), False, "left out", None),
        (MissingGoError("no Go, and no network"), True, "FAILED", 1),
        (BuildError("it does not compile"), False, "FAILED", 1),
        (BuildError("it does not compile"), True, "FAILED", 1),
    ],
)
def test_a_real_suite_that_cannot_run_says_why(
    monkeypatch: pytest.MonkeyPatch, error: BuildError, required: bool, word: str, code: int | None
) -> None:
    def suites(name: str, arguments: Sequence[str]) -> run_tests.Outcome:
        return run_tests.Outcome(name, 0, "1 s")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(run_tests, "_pytest", suites)
    monkeypatch.setattr(build, "build", fail)

    *others, real = run_tests.run_suites(long=False, require_real=required)

    assert [outcome.code for outcome in others] == [0, 0]
    assert real.code == code
    assert real.line() == f"  {word:9} end to end on a real control plane: {error}"

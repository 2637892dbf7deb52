"""Comparison of a page's output with a command's."""

import pytest

from e2e.install.docs.output import difference

TABLE = "NAME      READY   AGE\ntrain-x1   1/1    3m2s\ntrain-y2   0/1    45s\n"


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(TABLE, id="the same"),
        pytest.param("NAME READY AGE\ntrain-x1 1/1 5s\n\ntrain-y2 0/1 2d3h\n", id="spaces, ages"),
        pytest.param("NAME READY AGE\ntrain-... 1/1 1m\ntrain-...2 ... 1m", id="parts of lines"),
        pytest.param("NAME READY AGE\n...", id="more lines"),
        pytest.param("...\ntrain-y2 0/1 1s", id="lines before"),
        pytest.param("...\ntrain-x1 1/1 1s\n...\n", id="no more lines"),
    ],
)
def test_it_agrees(shown: str) -> None:
    assert difference(shown, TABLE) is None


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        pytest.param("NAME READY AGE\ntrain-x1 1/1 1s", "more was said than is shown", id="more"),
        pytest.param("", "more was said than is shown: 'NAME", id="nothing is shown"),
        pytest.param(TABLE + "train-z3 1/1 1s", "'train-z3 1/1 1s' is shown", id="less"),
        pytest.param("...\ntrain-x1 0/1 1s\n...", "'train-x1 0/1 1s' is shown", id="another word"),
        pytest.param("NAME READY AGE\ntrain-x1 1/1 soon\n...", "soon", id="no age"),
        pytest.param("NAME READY\n...", "'NAME READY' is shown", id="a word less"),
    ],
)
def test_it_does_not_agree(shown: str, problem: str) -> None:
    wrong = difference(shown, TABLE)

    assert wrong is not None
    assert problem in wrong


def test_nothing_said_is_nothing_shown() -> None:
    assert difference("", "\n") is None
    assert difference("...", "") is None

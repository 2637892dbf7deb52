"""Patterns with the semantics of Go's regexp package."""

import pytest

from localcluster.schemas.patterns import PatternError, compile_pattern, string_format


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        pytest.param("b", "abc", True, id="anywhere in the text"),
        pytest.param("^a$", "a\n", False, id="a dollar sign is the very end"),
        pytest.param(r"a\z", "ba", True, id="the end by its other name"),
        pytest.param("[[:digit:]]+", "12", True, id="a POSIX class"),
        pytest.param("^[$]$", "$", True, id="a dollar sign in a class"),
        pytest.param(r"^\w+$", "é", False, id="letters are ASCII"),
        pytest.param(r"^\$$", "$", True, id="an escaped dollar sign"),
    ],
)
def test_a_pattern_is_found(pattern: str, value: str, found: bool) -> None:
    assert compile_pattern(pattern).found_in(value) is found


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("(?=x)", id="a look ahead"),
        pytest.param("(?<!x)", id="a look behind"),
        pytest.param(r"(a)\1", id="a back reference"),
        pytest.param("[", id="an open class"),
    ],
)
def test_a_pattern_that_go_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        pytest.param("date-time", "2026-01-02T03:04:05Z", "2026-01-02", id="a time"),
        pytest.param("ipv4", "10.0.0.1", "10.0.0.256", id="an address"),
        pytest.param("cidr", "10.0.0.0/8", "10.0.0.0", id="a network"),
        pytest.param("uuid", "6abcddb1-1988-4ceb-9b45-a2b4391f08d9", "6abcddb1", id="a UUID"),
        pytest.param("duration", "1h30m", "soon", id="a duration"),
        pytest.param("byte", "aGk=", "*", id="base64"),
        pytest.param("k8s-short-name", "a-1", "A-1", id="a short name"),
    ],
)
def test_a_format_tells_right_from_wrong(name: str, right: str, wrong: str) -> None:
    check = string_format(name)

    assert check is not None
    assert check(right)
    assert not check(wrong)


def test_a_format_that_nobody_knows_is_not_checked() -> None:
    assert string_format("made-up") is None

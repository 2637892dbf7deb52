"""CEL expressions of Kubernetes: compiled once, evaluated as by the API server."""

from typing import Any

import pytest

from localcluster.schemas import cel

VARIABLES = ("object", "oldObject", "request")
POD: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"x/y": "1"}, "finalizers": ["f"]},
    "spec": {"priority": 3, "ratio": 1.5, "nothing": None},
}


def run(text: str, **values: Any) -> Any:
    given = {"object": POD, "oldObject": None, "request": {"operation": "CREATE"}, **values}
    return cel.compile_expression(text, VARIABLES).evaluate(given)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("has(object.metadata.labels) && 'x/y' in object.metadata.labels", True,
                     id="a label that is there"),
        pytest.param("has(object.metadata.annotations)", False, id="a field that is not there"),
        pytest.param("oldObject == null", True, id="no old object"),
        pytest.param("object.spec.nothing == null", True, id="a null"),
        pytest.param("object.?spec.?schedulingGroup.hasValue()", False, id="an optional field"),
        pytest.param("object.metadata.labels[?'x/y'].orValue('')", "1", id="an optional key"),
        pytest.param("object.metadata.finalizers.exists(f, f == 'f')", True, id="a macro"),
        pytest.param("object.metadata.name.startsWith('a') && 'AB'.lowerAscii() == 'ab'", True,
                     id="string functions"),
        pytest.param("object.metadata.name.matches('^[a-z]$')", True, id="a pattern"),
        pytest.param("'a,b'.split(',').size()", 2, id="a split"),
        pytest.param("object.spec.priority > 2.5", True, id="numbers of two types"),
        pytest.param("request.operation in ['CREATE', 'UPDATE']", True, id="membership"),
        pytest.param("duration('1h') > duration('1m')", True, id="durations"),
        pytest.param("[3, 1].sum() + [3, 1].max() - [3, 1].min()", 6, id="list functions"),
        pytest.param("[1, 2].isSorted() && !['b', 'a'].isSorted()", True, id="order"),
        pytest.param("sets.contains([1, 2], [2]) && sets.intersects([1], [1, 3])", True,
                     id="set functions"),
        pytest.param("false && object.nope == 1", False, id="an error that does not matter"),
    ],
)  # fmt: skip
def test_an_expression_is(text: str, want: Any) -> None:
    assert run(text) == want


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        pytest.param("object.nope == 1", "no such key: nope", id="a missing key"),
        pytest.param("object.metadata.finalizers[3]", "index out of bounds: 3", id="an index"),
        pytest.param("object.metadata.name + 1 == 2", "no such overload", id="types that clash"),
    ],
)
def test_an_evaluation_fails_with(text: str, detail: str) -> None:
    with pytest.raises(cel.EvaluationError) as failed:
        run(text)

    assert failed.value.detail == detail
    assert failed.value.expression == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("object.metadata.name ==", id="broken syntax"),
        pytest.param("foo == 1", id="an unknown variable"),
        pytest.param("quantity('1Gi').isGreaterThan(quantity('1'))", id="quantities"),
        pytest.param("authorizer.path('/x').check('get').allowed()", id="the authorizer"),
        pytest.param("isURL('x')", id="a function that is not known here"),
    ],
)
def test_what_cannot_be_run_is_refused_before(text: str) -> None:
    with pytest.raises(cel.CompileError, match="compilation failed"):
        cel.compile_expression(text, VARIABLES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("self == oldSelf", True, id="read"),
        pytest.param("self.oldSelf == 1", False, id="a field of that name"),
        pytest.param("self == 'oldSelf'", False, id="a text of that name"),
        pytest.param("self == oldSelfish", False, id="a longer name"),
    ],
)
def test_a_variable_is_mentioned(text: str, found: bool) -> None:
    assert cel.mentions(text, "oldSelf") is found

"""The formatting of invalid values: as in Kubernetes' field errors, and never at full length."""

from typing import Any

import pytest

from api import causes
from api.causes import SHOWN_LENGTH


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("x", '"x"', id="a text is quoted"),
        pytest.param('a "b"', '"a \\"b\\""', id="a text with quotes"),
        pytest.param("größer", '"größer"', id="a text of any language"),
        pytest.param(0, "0", id="a number"),
        pytest.param(True, "true", id="a boolean"),
        pytest.param(None, "null", id="nothing"),
        pytest.param(["driver", "data"], '["driver","data"]', id="a list"),
        pytest.param({"gang": {"minCount": 1}}, '{"gang":{"minCount":1}}', id="an object"),
        pytest.param([], "[]", id="an empty list"),
    ],
)
def test_a_value_is_shown_as_json(value: Any, want: str) -> None:
    assert causes.invalid("spec", value, "no").message == f"Invalid value: {want}: no"
    assert causes.type_invalid("spec", value, "a text").message == (
        f"Invalid value: {want}: must be a text"
    )
    assert causes.duplicate("spec", value).message == f"Duplicate value: {want}"
    assert causes.not_supported("spec", value, ["A"]).message == (
        f'Unsupported value: {want}: supported values: "A"'
    )


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 1_000_000, id="a text"),
        pytest.param("\n" * SHOWN_LENGTH, id="a text that is longer when it is quoted"),
        pytest.param(["x"] * 1_000_000, id="a list"),
        pytest.param({str(at): at for at in range(10_000)}, id="an object"),
        pytest.param(["x" * 1_000_000], id="a long text in a list"),
    ],
)
def test_a_long_value_is_cut(value: Any) -> None:
    message = causes.invalid("spec", value, "no").message

    assert message.endswith("...: no")
    assert len(message) == len("Invalid value: ") + SHOWN_LENGTH + len("...: no")


def test_of_a_long_value_no_more_is_read_than_is_shown() -> None:
    """Each of many errors may be about the same large object."""

    class Counted(list[str]):
        read = 0

        def __iter__(self) -> Any:
            for item in super().__iter__():
                self.read += 1
                yield item

    value = Counted(["x"] * 100_000)
    causes.invalid("spec", value, "no")

    assert value.read <= SHOWN_LENGTH


def test_a_fault_is_a_warning_where_nothing_is_refused() -> None:
    fault = causes.invalid("spec.x", 3, "must be 4")

    assert fault.as_warning() == "spec.x: Invalid value: 3: must be 4"

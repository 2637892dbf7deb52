"""Quantities as integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.client.quantity import MAX_INT64, QuantityError, parse_milli, parse_value


@pytest.mark.parametrize(
    ("text", "milli", "value"),
    [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("1500m", 1500, 2),
        ("0.1", 100, 1),
        (".5", 500, 1),
        ("2.", 2000, 2),
        ("+3", 3000, 3),
        ("-1500m", -1500, -2),
        ("1n", 1, 1),
        ("100u", 1, 1),
        ("1k", 1_000_000, 1000),
        ("1Ki", 1_024_000, 1024),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("1.5e-1", 150, 1),
        ("12E", MAX_INT64, MAX_INT64),
        ("7E", MAX_INT64, 7 * 10**18),
        ("1e999999999", MAX_INT64, MAX_INT64),
        ("0e999999999", 0, 0),
        ("1e-999999999", 1, 1),
    ],
)
def test_reads_what_kubernetes_reads(text: str, milli: int, value: int) -> None:
    assert (parse_milli(text), parse_value(text)) == (milli, value)


def test_reads_a_plain_number() -> None:
    assert (parse_milli(2), parse_value(2)) == (2000, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1mi",
        "1KI",
        "K",
        "e3",
        "1e",
        "1.2.3",
        "--1",
        "٣",
        "9" * 5000,
        "1e" + "9" * 5000,
    ],
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_value(text)

    assert caught.value.text == text


@given(st.integers(min_value=0, max_value=10**15))
def test_milli_and_whole_units_agree(milli: int) -> None:
    assert parse_milli(f"{milli}m") == milli
    assert parse_value(f"{milli}m") == -(-milli // 1000)

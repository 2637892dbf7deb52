"""The messages about selectors that fail."""

import pytest

from scheduler.cel.errors import SelectorError
from scheduler.cel.selectors import LONGEST, compile_selector
from scheduler.core.values.devices import Attribute, DeviceInfo
from tests.scheduler.cel.devices import device


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 +", "syntax error at character 4: the end of the text is not expected here"),
        ("true true", "syntax error at character 6: 'true' is not expected here"),
        ("a ? b", "syntax error at character 6: ':' is expected, not the end of the text"),
        ("#", "syntax error at character 1: nothing starts with '#'"),
        (r'"\q" == "q"', r"syntax error at character 1: '\\q' is no escape sequence"),
        ("let == 1", "syntax error at character 1: 'let' is a reserved word"),
        ("has(device)", "syntax error at character 1: has() needs a field, as in has(a.b)"),
        ("9223372036854775808 > 0", "character 1: 9223372036854775808 is beyond the largest int"),
        ("gpu.model == 'x'", "undeclared reference to 'gpu'"),
        ("device.driver.foo()", "undeclared reference to 'foo'"),
        ("size()", "no overload of 'size' has 0 arguments"),
        (
            "isURL('x')",
            "Muster does not evaluate URLs and formats",
        ),
        ('"a".matches("(")', "error parsing regexp: missing ): ("),
        ("(" * 61 + "true" + ")" * 61, "nested more than 60 levels deep"),
        ("-".join("1" * 200) + " < 0", "more than 100 operations stand within each other"),
        ("'" + "a" * LONGEST + "' == ''", f"the expression has more than {LONGEST} bytes"),
        (
            " || ".join(f"device.driver.matches('{number}')" for number in range(65)),
            "more than 64 regular expressions",
        ),
    ],
)
def test_what_cannot_be_compiled_says_where_and_why(text: str, words: str) -> None:
    with pytest.raises(SelectorError) as refused:
        compile_selector(text)

    assert str(refused.value).startswith("CEL compile error: ")
    assert str(refused.value).endswith(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("device.attributes['d'].none == 1", "no such key: none"),
        ("device.attributes['d'].name", "CEL result of type string could not be converted to bool"),
        ("device.attributes['d'].name > 1", "no such overload"),
        ("[1, 2][2] == 1", "index out of bounds: 2"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("device.attributes['d'].?none.value() == 1", "optional.none() dereference"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
        (
            "device.attributes['d'].name.isGreaterThan(semver('1.0.0'))",
            "isGreaterThan(string, kubernetes.Semver)",
        ),
        ("semver(device.attributes['d'].name).major() == 1", "not a semantic version: 'T4'"),
    ],
)
def test_what_fails_on_a_device_says_why(text: str, words: str) -> None:
    with pytest.raises(SelectorError) as failed:
        compile_selector(text).evaluate("d", device(name="T4"))

    assert str(failed.value).startswith("CEL runtime error: ")
    assert str(failed.value).endswith(words)


def test_a_version_that_is_none_is_named() -> None:
    bad = DeviceInfo("d", (("firmware", Attribute("version", "1.x")),))

    with pytest.raises(SelectorError, match=r"attribute firmware: not a semantic version: '1\.x'"):
        compile_selector("true").evaluate("d", bad)

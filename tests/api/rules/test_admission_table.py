"""The table of admission cases, against the rules alone."""

import re

import pytest

from api.causes import TYPE_INVALID
from api.reading import dig
from api.rules import table
from tests.api.rules.admission import admitted
from tests.support.admission import ALL, Case

ENOUGH = 150


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.sentence)
def test_admission(case: Case) -> None:
    result, forbidden, stored = admitted(case)

    found = [(cause.field, cause.reason.removeprefix("FieldValue")) for cause in result.causes]
    assert found == list(case.faults)
    assert forbidden == case.forbidden
    assert len(result.warnings) == len(case.warnings)
    for warning, beginning in zip(result.warnings, case.warnings, strict=True):
        assert warning.startswith(beginning)
    for path, value in case.becomes.items():
        assert dig(stored, *path.split(".")) == value


def test_every_case_has_a_sentence_of_its_own_and_there_are_enough() -> None:
    sentences = {case.sentence for case in ALL}

    assert len(sentences) == len(ALL) >= ENOUGH


def ends(path: str, end: str) -> bool:
    """Return True if a field path ends as a rule's pattern."""
    pattern = re.escape(end).replace(re.escape("[]"), r"\[\d+\]").replace(r"\*", r"[^.]+")
    return re.search(rf"(^|\.){pattern}$", path) is not None


@pytest.mark.parametrize(
    "case",
    [case for case in ALL if case.faults and not case.forbidden],
    ids=lambda case: case.sentence,
)
def test_every_fault_is_of_a_rule_in_the_table_and_where_that_says(case: Case) -> None:
    """Wrong types are excluded, because any field can have them."""
    result, _, _ = admitted(case)

    for cause in result.causes:
        assert cause.message.count(": ") >= 1
        assert cause.reason == TYPE_INVALID or any(
            rule.reason == cause.reason
            and rule.text in cause.message
            and any(ends(cause.field, end) for end in rule.where)
            for rule in table.ALL
        )


def test_every_rule_has_a_name_and_one_that_is_said_in_two_ways_has_one() -> None:
    names = [rule.id for rule in table.ALL]

    assert {name for name in names if names.count(name) > 1} == {"policy-required"}

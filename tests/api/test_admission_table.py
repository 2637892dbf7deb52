"""The table of admission cases, against the rules alone: what a webhook does, without one."""

from collections.abc import Mapping
from typing import Any

import pytest

from api import causes, conversion, priority
from api.causes import Cause, Verdict
from api.constants import GROUP, VERSION
from api.defaults import defaults
from api.inherit import is_incomplete
from api.reading import dig, mapping
from api.rules import validate
from tests.support.admission import ALL, Case
from tests.support.admission.case import CLASSES, SYSTEM_CLASSES

Json = dict[str, Any]
ENOUGH = 150


def admitted(case: Case) -> tuple[Verdict, bool, Json]:
    """The verdict, whether it is Forbidden, and the object as it would be stored."""
    group, new = case.new["apiVersion"].split("/")[0], case.new
    if group == GROUP:
        new = conversion.convert(new, f"{GROUP}/{VERSION}") if _has_versions(new) else new
        if case.old is None:
            new, refusal = _completed(new)
            if refusal is not None:
                return Verdict([refusal]), True, new
    operation = "CREATE" if case.old is None else "UPDATE"
    verdict = validate(
        new["kind"], new, case.old, operation, group=group, subresource=case.subresource
    )
    return verdict, False, new


def _has_versions(obj: Mapping[str, Any]) -> bool:
    return bool(obj["kind"] != "CompositePodGroup")


def _completed(obj: Json) -> tuple[Json, Cause | None]:
    """As the mutating webhook completes a new object, or why it does not."""
    kind, spec = obj["kind"], mapping(obj.get("spec"))
    operations = defaults(kind, obj)
    if kind != "Workload" and not (kind == "PodGroup" and is_incomplete(spec)):
        resolved = priority.resolve(spec, [*CLASSES, *SYSTEM_CLASSES])
        if isinstance(resolved, Cause):
            return obj, resolved
        operations += resolved.operations(spec)
    made = {**obj, "metadata": {**obj["metadata"]}, "spec": {**spec}} if spec else obj
    for operation in operations:
        _, place, key, *end = operation["path"].split("/")
        if end:
            made[place][key] = [*made[place][key], operation["value"]]
        else:
            made[place][key] = operation["value"]
    return made, None


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.sentence)
def test_admission(case: Case) -> None:
    verdict, forbidden, stored = admitted(case)

    found = [(cause.field, cause.reason.removeprefix("FieldValue")) for cause in verdict.causes]
    assert found == list(case.faults)
    assert forbidden == case.forbidden
    assert len(verdict.warnings) == len(case.warnings)
    for warning, beginning in zip(verdict.warnings, case.warnings, strict=True):
        assert warning.startswith(beginning)
    for path, value in case.becomes.items():
        assert dig(stored, *path.split(".")) == value


def test_every_case_has_a_sentence_of_its_own_and_there_are_enough() -> None:
    sentences = {case.sentence for case in ALL}

    assert len(sentences) == len(ALL) >= ENOUGH


@pytest.mark.parametrize(
    "case", [case for case in ALL if case.faults], ids=lambda case: case.sentence
)
def test_every_refusal_says_what_is_wrong_in_words(case: Case) -> None:
    verdict, _, _ = admitted(case)

    for cause in verdict.causes:
        head, _, rest = cause.message.partition(": ")
        assert head in {
            "Required value",
            "Invalid value",
            "Duplicate value",
            "Unsupported value",
            "Too many",
            "Forbidden",
        }
        assert rest
        assert cause.reason.startswith(causes.INVALID.removesuffix("Invalid"))

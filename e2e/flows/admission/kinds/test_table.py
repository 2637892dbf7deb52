"""The table of admission cases, through an API server and the webhook process."""

from typing import Any

import pytest

from e2e.flows.admission.kinds.conftest import CaseNamespace
from e2e.harness.support.rest import Answer
from tests.support.admission import EACH_ROUTE, Case

Json = dict[str, Any]
DRY = {"dryRun": "All"}
CONFLICT = 409


@pytest.mark.parametrize("case", EACH_ROUTE)
async def test_admission(case: Case, case_namespace: CaseNamespace) -> None:
    answer = await (
        _created(case, case_namespace) if case.old is None else _updated(case, case_namespace)
    )

    assert answer.status == (case.code if case.code != 200 or case.old else 201), answer.text
    found = _faults(answer) if case.faults else []
    wanted = case.faults
    if case.server is not None and case_namespace.release >= case.server_since:
        wanted = case.server
    assert found == sorted(wanted)
    said = [warning for warning in answer.warnings if "metadata." in warning]
    assert len(said) == len(case.warnings)
    for beginning in case.warnings:
        assert any(beginning in warning for warning in said)
    for path, value in case.becomes.items():
        assert _dig(answer.body, path) == value


async def _created(case: Case, case_namespace: CaseNamespace) -> Answer:
    return await case_namespace.rest.post(case_namespace.path(case.new), case.new, params=DRY)


async def _updated(case: Case, case_namespace: CaseNamespace) -> Answer:
    """Store the old object, send the update as a dry run, and delete the object."""
    assert case.old is not None
    old = case.old | {"metadata": {"generateName": "case-"}}
    stored = (await case_namespace.rest.post(case_namespace.path(old), old)).expect(201)
    path = f"{case_namespace.path(old)}/{stored['metadata']['name']}"
    changes = {key: value for key, value in case.new["metadata"].items() if key != "name"}
    end = f"/{case.subresource}" if case.subresource else ""
    try:
        while True:
            new = case.new | {"metadata": stored["metadata"] | changes}
            answer = await case_namespace.rest.put(path + end, new, params=DRY)
            if answer.status != CONFLICT:
                return answer
            # A controller wrote its status in between.
            stored = (await case_namespace.rest.get(path)).ok()
    finally:
        (await case_namespace.rest.delete(path)).ok()


def _faults(answer: Answer) -> list[tuple[str, str]]:
    causes = answer.body["details"].get("causes", [])
    return sorted((cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in causes)


def _dig(obj: Json, path: str) -> Any:
    value: Any = obj
    for key in path.split("."):
        value = value.get(key, {}) if isinstance(value, dict) else None
    return None if value == {} else value

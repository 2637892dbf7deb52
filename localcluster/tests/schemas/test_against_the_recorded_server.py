"""The schema engine compared to the kube-apiserver responses recorded in data/cases.yaml."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.base.errors import Cause
from localcluster.schemas import structural
from localcluster.schemas.defaulting import default
from localcluster.schemas.lists import check_lists
from localcluster.schemas.pruning import prune
from localcluster.schemas.rules import check_rules
from localcluster.schemas.schema import UNSET, Schema, parse
from localcluster.schemas.validation import validate

CASES = yaml.safe_load((Path(__file__).parent / "data" / "cases.yaml").read_text())
AT = "spec.validation.openAPIV3Schema"


def cases(word: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if word in case["want"]]


def whole(case: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": case["schema"]}}


def stored(schema: Schema, spec: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    obj = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "spec": spec}
    obj = copy.deepcopy(obj)
    unknown = prune(obj, schema)
    default(obj, schema)
    return obj, unknown


def judge(schema: Schema, case: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[Cause]]:
    new, unknown = stored(schema, case.get("create", {}))
    old: Any = UNSET
    if "update" in case:
        old = new
        new, unknown = stored(schema, case["update"])
    causes = validate(new, schema, "", old) + check_lists(new, schema)
    return new, unknown, causes or check_rules(new, schema, "", old)


def as_recorded(causes: list[Cause]) -> list[dict[str, str]]:
    return sorted(
        (cause.to_json() for cause in causes),
        key=lambda cause: (cause.get("field", ""), cause["message"]),
    )


@pytest.mark.parametrize("case", cases("spec"))
def test_what_is_stored(case: dict[str, Any]) -> None:
    schema = parse(whole(case))

    obj, unknown, causes = judge(schema, case)

    assert causes == []
    assert obj["spec"] == case["want"]["spec"]
    wanted = [text.removeprefix('unknown field "')[:-1] for text in case["want"].get("unknown", ())]
    assert sorted(unknown) == sorted(wanted)


@pytest.mark.parametrize("case", cases("causes"))
def test_what_is_refused(case: dict[str, Any]) -> None:
    _, _, causes = judge(parse(whole(case)), case)

    assert as_recorded(causes) == case["want"]["causes"]


@pytest.mark.parametrize("case", cases("refused"))
def test_which_schema_is_refused(case: dict[str, Any]) -> None:
    causes = structural.check(whole(case), AT)

    assert as_recorded(causes) == case["want"]["refused"]

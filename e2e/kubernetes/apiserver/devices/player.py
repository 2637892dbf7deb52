"""Plays cases on a server, and normalizes its responses so that every run has the same."""

import copy
import re
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.support.rest import Answer, Rest
from e2e.kubernetes.apiserver.devices.builders import Case, Object
from e2e.kubernetes.apiserver.objects import Namespace

ANSWERS = Path(__file__).with_name("answers.yaml")
_HEAD = """\
# What kube-apiserver 1.36.3 answers to the cases of cases.py.
# Recorded by `pytest e2e/kubernetes/apiserver/test_devices.py --cluster=real --record`.
"""
# Values of Go types are formatted as Go does.
_STRUCT = re.compile(r"(?<=value: )[{\[].*[}\]](?=: |$)")
# Compilation errors have the CEL library's own text.
_LIBRARY = re.compile(r"(compilation failed: ERROR).*", re.DOTALL)
_LONG_LIST = 4
_LONG_TEXT = 300
_NAMESPACED = {"pods", "resourceclaims", "resourceclaimtemplates"}


def recorded() -> dict[str, Object]:
    """Return the recorded responses by the cases' ids."""
    answers: dict[str, Object] = yaml.safe_load(ANSWERS.read_text())
    return answers


def write(answers: dict[str, Object]) -> None:
    """Write the responses to the file."""
    ANSWERS.write_text(_HEAD + yaml.safe_dump(answers, sort_keys=False, width=100))


class Player:
    """Plays cases as the administrator; `ns` is for cases without namespace labels."""

    def __init__(self, rest: Rest, ns: Namespace, labelled: dict[str, Namespace]) -> None:
        """Create a player; `labelled` has namespaces by their label for admin access."""
        self._rest = rest
        self._ns = ns
        self._labelled = labelled

    async def play(self, case: Case, name: str) -> Object:
        """Return the object stored at the end, or the rejection, and delete the object."""
        path = self._path(case)
        body = copy.deepcopy(case.obj)
        body["metadata"] = {**body.get("metadata", {}), "name": name}
        try:
            return await self._steps(case, path, f"{path}/{name}", body)
        finally:
            await self._rest.delete(f"{path}/{name}", {"gracePeriodSeconds": 0})

    async def _steps(self, case: Case, path: str, one: str, body: Object) -> Object:
        answer = await self._rest.post(f"{path}?fieldValidation=Warn", body)
        warnings = list(answer.warnings)
        for step, status in enumerate(case.status):
            if answer.status < 300:
                answer = await self._rest.put(f"{one}/status", {**answer.body, "status": status})
            else:
                raise AssertionError(f"{case.id}: refused before status {step}: {answer.text}")
        if answer.status < 300 and case.update is not None:
            answer = await self._rest.put(one, _merged(answer.body, case.update))
        return _said(case, answer) | ({"warnings": warnings} if warnings else {})

    def _path(self, case: Case) -> str:
        if case.plural not in _NAMESPACED:
            return f"/apis/{case.api_version}/{case.plural}"
        ns = self._ns
        if case.labels:
            ns = self._labelled[next(iter(case.labels.values()))]
        if case.plural == "pods":
            return ns.pods()
        return ns.path(case.api_version, case.plural)


def _merged(obj: Object, update: Object) -> Object:
    out = copy.deepcopy(obj)
    for field, value in update.items():
        out[field] = {**out.get(field, {}), **value} if field == "metadata" else value
    return out


def _said(case: Case, answer: Answer) -> Object:
    body = answer.body
    if answer.status < 300:
        return {"stored": _short(_pod(body) if case.plural == "pods" else _stored(case, body))}
    causes = (body.get("details") or {}).get("causes") or [{"message": body["message"]}]
    for cause in causes:
        said = cause["message"].partition("\n@@")[0]  # the difference, in Go's format
        cause["message"] = _LIBRARY.sub(r"\1", _STRUCT.sub("{...}", said))
    unique = {tuple(sorted(cause.items())) for cause in causes}
    ordered = sorted(unique, key=lambda cause: (dict(cause).get("field", ""), cause))
    return {"code": answer.status, "causes": [dict(cause) for cause in ordered]}


def _stored(case: Case, body: Object) -> Object:
    out = {name: body[name] for name in ("spec", "status") if body.get(name)}
    if "generation" in body["metadata"]:
        out["generation"] = body["metadata"]["generation"]
    for mine, given in zip(
        _devices(out), _devices(case.obj if case.update is None else out), strict=False
    ):
        for taint, said in zip(mine.get("taints", ()), given.get("taints", ()), strict=True):
            if "timeAdded" not in said:
                taint["timeAdded"] = "now"
    return out


def _devices(obj: Object) -> Any:
    return (obj.get("spec") or {}).get("devices") if _is_slice(obj) else ()


def _is_slice(obj: Object) -> bool:
    return isinstance((obj.get("spec") or {}).get("devices"), list)


def _pod(body: Object) -> Object:
    spec, status = body["spec"], body.get("status") or {}
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    return {
        "resourceClaims": spec.get("resourceClaims"),
        "resources": [container["resources"] for container in containers],
        "resourceClaimStatuses": status.get("resourceClaimStatuses"),
    }


def _short(value: Any) -> Any:
    """Return the value with long lists and texts cut to their first part and their length."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, list):
        kept = value if len(value) <= _LONG_LIST else [value[0], f"{len(value)} in all"]
        return [_short(one) for one in kept]
    if isinstance(value, str) and len(value) > _LONG_TEXT:
        return f"{value[:40]}... {len(value)} characters in all"
    return value

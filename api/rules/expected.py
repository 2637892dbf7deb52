"""Rules of `spec.expectedPods`: names, counts, and required fields of a template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from api import names
from api.constants import (
    MAX_EXPECTED_KINDS,
    MAX_EXPECTED_PODS,
    MAX_EXPECTED_STAGE,
    MAX_EXPECTED_TEMPLATE,
)
from api.reading import Reader
from api.rules import table


def check_expected_pods(reader: Reader, spec: Mapping[str, Any]) -> None:
    """Check the limit of kinds, unique names, counts, and at least one container in each."""
    path = "spec.expectedPods"
    kinds = reader.items(spec, "expectedPods", path)
    if len(kinds) > MAX_EXPECTED_KINDS:
        reader.report.append(table.EXPECTED_TOO_MANY.at(path, len(kinds)))
    seen: set[str] = set()
    for at, kind in enumerate(kinds):
        _check_kind(reader, kind, f"{path}[{at}]", seen)


def _check_kind(reader: Reader, kind: Mapping[str, Any], path: str, seen: set[str]) -> None:
    name = reader.text(kind, "name", f"{path}.name")
    if not name:
        reader.report.append(table.EXPECTED_NAME_REQUIRED.at(f"{path}.name"))
    elif name in seen:
        reader.report.append(table.EXPECTED_NAME_DUPLICATE.at(f"{path}.name", name))
    elif not names.is_dns_label(name):
        reader.report.append(table.EXPECTED_NAME.at(f"{path}.name", name))
    seen.add(name)
    count = reader.integer(kind, "count", f"{path}.count")
    if count is not None and not 0 <= count <= MAX_EXPECTED_PODS:
        reader.report.append(table.EXPECTED_COUNT.at(f"{path}.count", count))
    stage = reader.integer(kind, "stage", f"{path}.stage")
    if stage is not None and not 0 <= stage <= MAX_EXPECTED_STAGE:
        reader.report.append(table.EXPECTED_STAGE.at(f"{path}.stage", stage))
    _check_template(reader, kind, f"{path}.template")


def _check_template(reader: Reader, kind: Mapping[str, Any], path: str) -> None:
    template = reader.mapping(kind, "template", path)
    size = _size(template)
    if size > MAX_EXPECTED_TEMPLATE:
        reader.report.append(table.EXPECTED_TEMPLATE_SIZE.at(path, f"{size} bytes"))
        return
    reader.mapping(template, "metadata", f"{path}.metadata")
    spec = reader.mapping(template, "spec", f"{path}.spec")
    if not reader.items(spec, "containers", f"{path}.spec.containers"):
        reader.report.append(table.EXPECTED_CONTAINERS.at(f"{path}.spec.containers"))


def _size(template: Mapping[str, Any]) -> int:
    """Return the size as JSON in bytes."""
    try:
        return len(json.dumps(template, separators=(",", ":"), ensure_ascii=False).encode())
    # Nested too deeply for the encoder, or invalid text: reject it like one that is too large.
    except (RecursionError, UnicodeEncodeError):
        return MAX_EXPECTED_TEMPLATE + 1

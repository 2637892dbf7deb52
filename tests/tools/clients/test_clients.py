"""The typed clients are those of the models, which the CRDs are generated from, too."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from api.crd import crd
from muster_client import models
from tests.structure.graph import ROOT
from tools.clients.__main__ import FILES, write
from tools.clients.structs import KINDS, Struct, structs

CLIENTS = ROOT / "clients"


def test_the_files_are_as_the_models_say(tmp_path: Path) -> None:
    write(tmp_path)

    for name in FILES:
        assert (tmp_path / name).read_text() == (CLIENTS / name).read_text(), "run make generate"


@pytest.mark.parametrize("name", FILES)
def test_another_field_changes_each_client(name: str) -> None:
    def changed(struct: Struct) -> Struct:
        first = replace(struct.fields[0], name="somethingNew", is_list=True)
        return replace(struct, fields=(first, *struct.fields[1:]))

    found = [changed(struct) if struct.fields else struct for struct in structs()]

    assert "omethingNew" in FILES[name](found)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.kind)
def test_the_python_models_have_the_fields_of_the_schema(kind: Any) -> None:
    stored = next(each for each in crd(kind)["spec"]["versions"] if each["storage"])
    schema = stored["schema"]["openAPIV3Schema"]

    assert list(missing(schema, getattr(models, kind.kind), kind.kind)) == []


def missing(schema: Any, model: Any, path: str) -> Any:
    """Yield the paths of properties that a model lacks."""
    for name, part in schema.get("properties", {}).items():
        field = model.model_fields.get(name)
        if field is None:
            yield f"{path}.{name}"
        elif name != "metadata":
            inner = [each for each in found(field.annotation) if issubclass(each, BaseModel)]
            for each in inner:
                yield from missing(part.get("items", part), each, f"{path}.{name}")


def found(annotation: Any) -> list[type]:
    """Return the classes in an annotation."""
    parts = getattr(annotation, "__args__", None) or (annotation,)
    return [part for part in parts if isinstance(part, type) and not hasattr(part, "__args__")]


def test_the_go_types_have_the_fields_of_the_models() -> None:
    text = (CLIENTS / "go/scheduling/v1alpha3/types.go").read_text()
    tags = set(re.findall(r'json:"(\w+)', text))
    of_conditions = {"type", "observedGeneration", "lastTransitionTime", "message"}

    wanted = {field.name for struct in structs() for field in struct.fields}
    assert wanted - of_conditions <= tags
    for struct in structs():
        other = struct.name == "Condition" or struct.name.startswith("_")
        assert other or f"type {struct.name} struct" in text


@pytest.mark.skipif(shutil.which("gofmt") is None, reason="there is no gofmt")
def test_gofmt_has_nothing_to_change() -> None:
    done = subprocess.run(
        ["gofmt", "-l", str(CLIENTS / "go")], capture_output=True, text=True, check=True
    )

    assert done.stdout == ""

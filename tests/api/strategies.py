"""Hypothesis strategies: objects of our kinds as the API server stores them.

They are generated from the models, so that no field is missing: names are unique in lists keyed by
them, nothing is null, no annotation map is empty.
"""

import inspect
import types
from datetime import datetime
from functools import cache
from typing import Any, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from api.constants import ANNOTATION_CONVERSION_DATA, GROUP
from api.models.parts import ListMap
from api.models.v1alpha3 import CompositePodGroupTemplate

Json = dict[str, Any]

MAX_INT32 = 2**31 - 1
NAMES = st.text("abcdefgh", max_size=4)
TEXTS = NAMES | st.sampled_from(
    ["PodGroupScheduled", "PodGroupInitiallyScheduled", "gang", "Never", "größer", "\"'\\", ""]
)
NUMBERS = st.integers(-MAX_INT32, MAX_INT32)
TIMES = st.sampled_from(["2026-11-21T05:00:00Z", "2026-01-01T00:00:00Z"])
ANNOTATIONS = st.dictionaries(
    st.sampled_from(["example.com/owner", "note", "kubectl.kubernetes.io/last-applied"]),
    TEXTS,
    max_size=2,
)
# Content that a user may have written into the annotation of the conversion.
OWN_DATA = st.none() | st.sampled_from(
    [
        "garbage",
        "zlib:garbage",
        '{"v1alpha2":{"spec":{"podGroupTemplateRef":{"name":"a"}}}}',
        '{"v1alpha2":{"spec":{"podGroupTemplateName":"a","workloadRef":{"name":"b"}}}}',
        '{"v1alpha3":{"spec":{"priority":7}}}',
        "[" * 100_000,
    ]
)


@cache
def model_objects(model: type[BaseModel], depth: int = 3) -> st.SearchStrategy[Json]:
    """Generate objects of a model, any field present or absent, at most `depth` composites deep."""
    return st.fixed_dictionaries(
        {},
        optional={
            name: _field(field, depth)
            for name, field in model.model_fields.items()
            if depth > 0 or name != "compositePodGroupTemplates"
        },
    )


def _field(field: FieldInfo, depth: int) -> st.SearchStrategy[Any]:
    annotation = field.annotation
    if get_origin(annotation) in {Union, types.UnionType}:
        annotation = next(arg for arg in get_args(annotation) if arg is not type(None))
    if get_origin(annotation) is dict:
        return st.dictionaries(NAMES, TEXTS | NUMBERS | st.lists(TEXTS, max_size=2), max_size=2)
    if get_origin(annotation) is not list:
        return _value(annotation, depth)
    item = get_args(annotation)[0]
    key = next((mark.key for mark in field.metadata if isinstance(mark, ListMap)), None)
    items = _value(item, depth - (item is CompositePodGroupTemplate))
    return st.lists(items, max_size=3, unique_by=(lambda one: one.get(key, "")) if key else repr)


def _value(annotation: Any, depth: int) -> st.SearchStrategy[Any]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return st.deferred(lambda: model_objects(annotation, depth))
    return {str: TEXTS, int: NUMBERS, bool: st.booleans(), datetime: TIMES}[annotation]


@st.composite
def objects(
    draw: st.DrawFn, kind: str, version: str, model: type[BaseModel], *, own_data: bool = False
) -> Json:
    """Generate complete objects; with `own_data` some have the conversion's annotation already."""
    metadata: Json = {"name": "x", "namespace": "y", "uid": "u", "generation": 3}
    annotations = draw(ANNOTATIONS)
    if own_data and (data := draw(OWN_DATA)) is not None:
        annotations[ANNOTATION_CONVERSION_DATA] = data
    if annotations:
        metadata["annotations"] = annotations
    body = draw(model_objects(model))
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, **body}

"""Conversion from one version of a kind to another, without loss.

v1alpha3 is the hub: older versions are converted to it and from it, never directly to each other.
Fields that the wanted version lacks are stored in the annotation
`scheduling.muster.dev/conversion-data` and restored from there. A field that the version itself has
never comes from the annotation: what a client can see takes precedence.

A conversion never fails because of an object's content. Objects arrive before the API server has
validated them, and an object that cannot be converted could not even be listed. A value of the
wrong type is passed on for the schema and the rules to reject.

An update may lack the annotation, as `kubectl replace` with a manifest of an older version does. It
has no opinion on fields that its version lacks, so these keep their values (`with_hidden_fields`).
Otherwise an update without a change would be rejected as immutable.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from api.constants import GROUP, POD_GROUP, V1ALPHA1, V1ALPHA2, VERSION, WORKLOAD
from api.conversion import annotation, podgroup, workload
from api.reading import text

__all__ = ["ConversionError", "convert", "with_hidden_fields"]

Json = dict[str, Any]


class _Spoke(NamedTuple):
    """Conversion of one older version to v1alpha3 (`to_hub`) and back (`from_hub`)."""

    to_hub: Callable[[Mapping[str, Any]], Json]
    from_hub: Callable[[Mapping[str, Any]], Json]


_SPOKES: Final[Mapping[tuple[str, str], _Spoke]] = {
    (WORKLOAD.kind, V1ALPHA1): _Spoke(workload.from_v1alpha1, workload.to_v1alpha1),
    (WORKLOAD.kind, V1ALPHA2): _Spoke(workload.from_v1alpha2, workload.to_v1alpha2),
    (POD_GROUP.kind, V1ALPHA2): _Spoke(podgroup.from_v1alpha2, podgroup.to_v1alpha2),
}
_KINDS: Final = frozenset(kind for kind, _ in _SPOKES)


class ConversionError(ValueError):
    """The kind or version is unknown; the message names the known ones."""


def convert(obj: Mapping[str, Any], api_version: str) -> Json:
    """Return the object in another version, `group/version`. Raises ConversionError.

    Of the metadata, only the annotation changes.
    """
    kind = text(obj.get("kind"))
    present, wanted = _version(kind, text(obj.get("apiVersion"))), _version(kind, api_version)
    converted = dict(obj)
    if present != wanted:
        if present != VERSION:
            converted = _SPOKES[kind, present].to_hub(converted)
        if wanted != VERSION:
            converted = _SPOKES[kind, wanted].from_hub(converted)
    return converted | {"apiVersion": api_version}


def with_hidden_fields(
    kind: str, version: str, new: Mapping[str, Any], old: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return an update as a client of `version` means it; `old` and `new` are in v1alpha3.

    Fields that the version lacks come from the annotation, or from `old` if there is none. The
    status is that of `old`. v1alpha3 has no hidden fields.
    """
    spoke = _SPOKES.get((kind, version))
    if spoke is None:
        return new
    # An update of the object itself never writes the status, and the annotation contains a part of
    # it.
    meant = _without_status(new)
    # Converting to the client's version and back shows which fields it cannot express.
    said = spoke.from_hub(meant)
    if not annotation.text_of(said):
        there = spoke.from_hub(_without_status(old))
        meant = spoke.to_hub(annotation.attach(said, annotation.text_of(there)))
    return {**meant, "status": old["status"]} if "status" in old else meant


def _without_status(obj: Mapping[str, Any]) -> Json:
    return {key: value for key, value in obj.items() if key != "status"}


def _version(kind: str, api_version: str) -> str:
    group, _, version = api_version.rpartition("/")
    if group == GROUP and kind in _KINDS and (version == VERSION or (kind, version) in _SPOKES):
        return version
    known = sorted(f"{one} {GROUP}/{old}" for one, old in _SPOKES)
    raise ConversionError(
        f"cannot convert {kind or 'an object without a kind'} {api_version}: {', '.join(known)} "
        f"can be converted to and from {GROUP}/{VERSION}"
    )

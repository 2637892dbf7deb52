"""From one version of a kind to another, without loss.

v1alpha3 is the hub: the older versions are converted to it and from it, never to each other
directly. What the version wanted cannot say travels in the annotation
`scheduling.muster.dev/conversion-data` and comes back from there. A field that the version itself
has is never taken from the annotation: what a client can see takes precedence.

A conversion never fails because of what an object holds: objects come here before the API server
has looked at them, and one that could not be converted could not even be listed. What has the
wrong shape is handed on for the schema and the rules to refuse.

An update may come without the annotation: `kubectl replace` with a manifest that was written by
hand in an older version. It says nothing about what its version cannot say, so that stays as it is
(`with_hidden_fields`); otherwise an update without a change would be refused as immutable.
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
    """The object in another version, `group/version`. Raises ConversionError.

    Metadata is as it was, but for the annotation.
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
    """An update as a client of `version` means it; `old` and `new` are in v1alpha3.

    Without the annotation, what the version cannot say is taken from `old`; with it, from the
    annotation. The status is that of `old`: an update of an object itself never writes it, and a
    part of it travels in the annotation too. v1alpha3 has no hidden fields.
    """
    spoke = _SPOKES.get((kind, version))
    if spoke is None:
        return new
    meant = _without_status(new)
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
        f"no conversion for {kind or 'an object without a kind'} {api_version}: "
        f"{', '.join(known)} are converted from and to {GROUP}/{VERSION}"
    )

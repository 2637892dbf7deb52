"""LimitRanges of a namespace, applied to a new pod as the plugin LimitRanger does.

They set missing requests and limits of containers, and reject pods beyond their bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.pod_defaults import CONTAINERS
from api.reading import dig, listing, mapping, text
from kube.client.quantity import parse_milli
from scheduler.decoding.objects import pod_of
from scheduler.decoding.requests import pod_requests

Json = dict[str, Any]
_Amounts = Mapping[str, Any]

_CONTAINER: Final = "Container"
_POD: Final = "Pod"


def set_defaults(pod: Json, limit_range: Json) -> None:
    """Set the range's requests and limits on containers that lack them."""
    requests: Json = {}
    limits: Json = {}
    for item in _items(limit_range, _CONTAINER):
        # The API server completes a range in this way when it stores the range.
        maximum, minimum, default = (mapping(item.get(key)) for key in ("max", "min", "default"))
        limits |= {**maximum, **default}
        requests |= {**minimum, **maximum, **default, **mapping(item.get("defaultRequest"))}
    for _, container in _containers(pod):
        said = mapping(container.get("resources"))
        found = {
            "limits": {**limits, **mapping(said.get("limits"))},
            "requests": {**requests, **mapping(said.get("requests"))},
        }
        container["resources"] = {**said, **{key: it for key, it in found.items() if it}}


def faults(pod: Json, limit_range: Json) -> Iterator[Cause]:
    """Yield why the range rejects the pod, with its defaults. Raises QuantityError."""
    for item in _items(limit_range, _CONTAINER):
        for path, container in _containers(pod):
            said = mapping(container.get("resources"))
            asked, most = (mapping(said.get(key)) for key in ("requests", "limits"))
            yield from _beyond(item, asked, most, f"{path}.resources", _CONTAINER)
    for item in _items(limit_range, _POD):
        yield from _beyond(item, _total(pod, "requests"), _total(pod, "limits"), "spec", _POD)


def contradictions(pod: Json) -> Iterator[Cause]:
    """Yield requests above their limits, which a default limit can cause. Raises QuantityError."""
    for path, container in _containers(pod):
        said = mapping(container.get("resources"))
        asked, most = (mapping(said.get(key)) for key in ("requests", "limits"))
        for resource in sorted(asked.keys() & most.keys()):
            if parse_milli(asked[resource]) > parse_milli(most[resource]):
                problem = f"must be less than or equal to {resource} limit of {most[resource]}"
                yield causes.invalid(f"{path}.resources.requests", asked[resource], problem)


def _beyond(
    item: Json, requests: _Amounts, limits: _Amounts, path: str, kind: str
) -> Iterator[Cause]:
    """Yield violations of a bound, in LimitRanger's sentences."""
    said = {"request": requests, "limit": limits}
    wrong = [
        *_outside(mapping(item.get("min")), f"minimum {{}} usage per {kind}", said, sign=-1),
        *_outside(mapping(item.get("max")), f"maximum {{}} usage per {kind}", said, sign=1),
        *_ratios(mapping(item.get("maxLimitRequestRatio")), kind, requests, limits),
    ]
    yield from (causes.forbidden(path, text_) for text_ in wrong)


def _outside(
    bounds: _Amounts, usage: str, said: Mapping[str, _Amounts], *, sign: int
) -> Iterator[str]:
    """Yield amounts beyond a bound; a minimum (sign -1) needs a request, a maximum a limit."""
    needed = "request" if sign < 0 else "limit"
    for resource, bound in bounds.items():
        words = f"{usage.format(resource)} is {bound}"
        if resource not in said[needed]:
            yield f"{words}.  No {needed} is specified"
        for word in (it for it in said if resource in said[it]):
            amount = said[word][resource]
            if sign * (parse_milli(amount) - parse_milli(bound)) > 0:
                yield f"{words}, but {word} is {amount}"


def _ratios(ratios: _Amounts, kind: str, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    for resource, ratio in ratios.items():
        asked, most = (parse_milli(it.get(resource, 0)) for it in (requests, limits))
        if not (asked and most) or most * 1000 > asked * parse_milli(ratio):
            words = f"limit is {limits.get(resource)}, request is {requests.get(resource)}"
            yield f"{resource} max limit to request ratio per {kind} is {ratio}, but {words}"


def set_pod_requests(pod: Json) -> None:
    """Set the pod-level requests that containers state, if the pod has limits (`SetDefaults_Pod`).

    Raises QuantityError.
    """
    resources = mapping(pod["spec"].get("resources"))
    if not resources.get("limits"):
        return
    total = _total(pod, "requests")
    stated: Json = {key: total[key] for key in ("cpu", "memory") if key in total}
    requests = {**stated, **mapping(resources.get("requests"))}
    pod["spec"]["resources"] = {**resources, "requests": requests}


def _total(pod: Json, word: str) -> Json:
    """Return the requests or limits of the complete pod; its overhead does not count."""
    spec: Json = {"resources": _as_requests(pod["spec"], word)}
    for key in CONTAINERS:
        containers = listing(pod["spec"].get(key))
        spec[key] = [it | {"resources": _as_requests(it, word)} for it in containers]
    total = pod_requests(pod_of({"metadata": {}, "spec": spec}))
    return {name: f"{amount}m" if name == "cpu" else amount for name, amount in total}


def _as_requests(holder: Json, word: str) -> Json:
    return {"requests": mapping(dig(holder, "resources", word))}


def _items(limit_range: Json, kind: str) -> Iterator[Json]:
    for item in listing(dig(limit_range, "spec", "limits")):
        if text(mapping(item).get("type")) == kind:
            yield item


def _containers(pod: Json) -> Iterator[tuple[str, Json]]:
    """Yield the containers of the pod, with their paths."""
    for key in CONTAINERS:
        for at, container in enumerate(listing(pod["spec"].get(key))):
            yield f"spec.{key}[{at}]", container

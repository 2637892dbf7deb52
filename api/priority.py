"""Resolves a class name to a number, as Kubernetes' Priority admission does for pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from api import causes
from api.causes import Cause
from api.reading import integer, text

DEFAULT_PREEMPTION_POLICY: Final = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """What a `scheduling.k8s.io/v1` PriorityClass says."""

    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = DEFAULT_PREEMPTION_POLICY

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> Self:
        """The class as the API server gives it."""
        return cls(
            obj["metadata"]["name"],
            obj.get("value", 0),
            obj.get("globalDefault", False),
            obj.get("preemptionPolicy") or DEFAULT_PREEMPTION_POLICY,
        )


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a group's spec must hold; an empty class name means no class applies."""

    class_name: str
    priority: int
    preemption_policy: str

    def operations(self, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The JSON patch operations that bring a group's spec there."""
        wanted = {"priorityClassName": self.class_name or None, "priority": self.priority}
        wanted["preemptionPolicy"] = self.preemption_policy
        return [
            {"op": "add", "path": f"/spec/{key}", "value": value}
            for key, value in wanted.items()
            if value is not None and spec.get(key) != value
        ]


def resolve(spec: Mapping[str, Any], classes: Sequence[PriorityClass]) -> Resolved | Cause:
    """The priority of a group's spec, or why there is none (a Forbidden cause).

    Without a class name the global default is used, the lowest if there are several, else 0.
    A number the user gave must be the computed one. `preemptionPolicy` is the class's unless set.
    """
    name = text(spec.get("priorityClassName"))
    chosen = _named(name, classes) if name else _default(classes)
    if chosen is None and name:
        return causes.forbidden(
            "spec.priorityClassName", f"no PriorityClass with name {name} was found"
        )
    value = chosen.value if chosen else 0
    given = integer(spec.get("priority"))
    if given is not None and given != value:
        return causes.forbidden(
            "spec.priority",
            f"the priority must not be given as {given}: it is {value}, computed from "
            f"{_source(chosen)}; leave it out",
        )
    policy = text(spec.get("preemptionPolicy"))
    if not policy:
        policy = chosen.preemption_policy if chosen else DEFAULT_PREEMPTION_POLICY
    return Resolved(chosen.name if chosen else "", value, policy)


def _named(name: str, classes: Sequence[PriorityClass]) -> PriorityClass | None:
    return next((known for known in classes if known.name == name), None)


def _default(classes: Sequence[PriorityClass]) -> PriorityClass | None:
    defaults = [known for known in classes if known.global_default]
    return min(defaults, key=lambda known: (known.value, known.name), default=None)


def _source(chosen: PriorityClass | None) -> str:
    return f"PriorityClass {chosen.name}" if chosen else "the absence of a PriorityClass"

"""Resolution of a PriorityClass to a number, as Kubernetes' Priority admission does for pods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from api import causes
from api.causes import Cause
from api.reading import integer, mappings, text

DEFAULT_PREEMPTION_POLICY: Final = "PreemptLowerPriority"
NEVER: Final = "Never"
LONGEST_NAME: Final = 253
"""Characters that the name of a PriorityClass may have."""


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """The used fields of a `scheduling.k8s.io/v1` PriorityClass."""

    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = DEFAULT_PREEMPTION_POLICY

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> Self:
        """Return the class from an object of the API server."""
        return cls(
            obj["metadata"]["name"],
            obj.get("value", 0),
            obj.get("globalDefault", False),
            obj.get("preemptionPolicy") or DEFAULT_PREEMPTION_POLICY,
        )

    @property
    def preempts_never(self) -> bool:
        """True if pods of the class never preempt."""
        return self.preemption_policy == NEVER


@dataclass(frozen=True, slots=True)
class Resolved:
    """The wanted priority fields of a group; an empty class name means that no class applies."""

    class_name: str
    priority: int
    preemption_policy: str

    def operations(self, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the JSON patch operations that set these fields in a group's spec."""
        wanted = {"priorityClassName": self.class_name or None, "priority": self.priority}
        wanted["preemptionPolicy"] = self.preemption_policy
        return [
            {"op": "add", "path": f"/spec/{key}", "value": value}
            for key, value in wanted.items()
            if value is not None and spec.get(key) != value
        ]


def resolve(spec: Mapping[str, Any], classes: Sequence[PriorityClass]) -> Resolved | Cause:
    """Return the priority of a group's spec, or a Forbidden cause if there is none.

    Without a class name the global default is used, the lowest if there are several, else 0. A
    priority in the spec must be the computed one. `preemptionPolicy` comes from the class. A group
    may preempt less than its class allows, never more.
    """
    name = text(spec.get("priorityClassName"))
    chosen = _class_of(spec, classes)
    if chosen is None and name:
        return causes.forbidden(
            "spec.priorityClassName", f"no PriorityClass with name {name} was found"
        )
    value = chosen.value if chosen else 0
    given = integer(spec.get("priority"))
    if given is not None and given != value:
        return causes.forbidden(
            "spec.priority",
            f"the integer value of priority ({given}) must not be provided in the spec; Muster "
            f"computed {value} {_source(chosen)}. Remove priority",
        )
    denied = check_preemption(spec, classes, "spec")
    if denied is not None:
        return denied
    policy = text(spec.get("preemptionPolicy"))
    if not policy:
        policy = chosen.preemption_policy if chosen else DEFAULT_PREEMPTION_POLICY
    return Resolved(chosen.name if chosen else "", value, policy)


def check_preemption(
    spec: Mapping[str, Any], classes: Sequence[PriorityClass], path: str
) -> Cause | None:
    """Return a Forbidden cause if `spec` would preempt although its class never does.

    `spec` is that of a group, a template or a pod, at `path`. An unknown class is not checked here.
    """
    chosen = _class_of(spec, classes)
    asked = text(spec.get("preemptionPolicy"))
    if chosen is None or chosen.preemption_policy != NEVER or asked in {"", NEVER}:
        return None
    return causes.forbidden(
        f"{path}.preemptionPolicy",
        f"the string value of PreemptionPolicy ({asked}) must not be provided in the spec; Muster "
        f"computed {NEVER} {_source(chosen)}. Remove preemptionPolicy, or use a PriorityClass "
        "that preempts",
    )


def unknown_class(
    pod_spec: Mapping[str, Any], classes: Sequence[PriorityClass], path: str
) -> str | None:
    """Return a warning if the pod template's spec at `path` names a class that does not exist."""
    # The class may be created later, so this is no rejection. Until then every pod is rejected.
    name = text(pod_spec.get("priorityClassName"))
    if not name or _named(name, classes) is not None:
        return None
    return (
        f"{path}.priorityClassName: no PriorityClass with name {name[:LONGEST_NAME]} was found. "
        "The API server rejects the pods until the PriorityClass exists"
    )


def check_templates(
    spec: Mapping[str, Any], classes: Sequence[PriorityClass], path: str = "spec"
) -> Iterator[Cause]:
    """Yield these causes for every template of a valid Workload's spec."""
    for key in ("podGroupTemplates", "compositePodGroupTemplates"):
        for at, template in enumerate(mappings(spec, key)):
            here = f"{path}.{key}[{at}]"
            denied = check_preemption(template, classes, here)
            if denied is not None:
                yield denied
            yield from check_templates(template, classes, here)


def _class_of(spec: Mapping[str, Any], classes: Sequence[PriorityClass]) -> PriorityClass | None:
    """Return the class in the spec, or else the default one; None if there is no such class."""
    name = text(spec.get("priorityClassName"))
    return _named(name, classes) if name else _default(classes)


def _named(name: str, classes: Sequence[PriorityClass]) -> PriorityClass | None:
    return next((known for known in classes if known.name == name), None)


def _default(classes: Sequence[PriorityClass]) -> PriorityClass | None:
    defaults = [known for known in classes if known.global_default]
    # The lowest of several defaults, as Kubernetes' admission chooses.
    return min(defaults, key=lambda known: (known.value, known.name), default=None)


def _source(chosen: PriorityClass | None) -> str:
    return f"from PriorityClass {chosen.name}" if chosen else "because no PriorityClass applies"

"""The language of the situations: steps that change a cluster, and where the pods are then.

All values are frozen. Numbers of cpu are Kubernetes quantities; priorities are the values of
priority classes, and 0 stands for no class.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

STATES = ("run", "refused", "wait", "evicted")
"""States of a pod.

It has a node; its scheduler reported that it fits nowhere; it has no node, reported or not; it was
evicted.
"""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes, called n1, n2, ... in the order of all steps, with their topology domains."""

    domains: tuple[tuple[str, ...], ...]
    cpu: int
    tainted: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A PodGroup, or with `composite` a CompositePodGroup; without `minimum` its policy is basic.

    `never` gives it a priority class that does not preempt.
    """

    name: str
    minimum: int | None
    composite: bool = False
    parent: str = ""
    key: str = ""
    mode: str = ""
    priority: int = 0
    never: bool = False
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pods:
    """A set of equal pods, called NAME-0, NAME-1, ...

    `node` has the nodes where they are bound from the beginning, in turn; `only` is the node that
    their selector names, `prefers` the one that their affinity prefers. `lasting` ones do not
    end while the situation is played. `claims` are names of ResourceClaims, `spec` has further
    fields of their spec.
    """

    name: str
    count: int
    group: str = ""
    cpu: str = "1"
    priority: int = 0
    never: bool = False
    node: str = ""
    only: str = ""
    prefers: str = ""
    app: str = ""
    port: int = 0
    volume: str = ""
    claims: tuple[str, ...] = ()
    gated: bool = False
    tolerates: bool = False
    lasting: bool = False
    spec: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InTurn:
    """The first pod of each set, then the second of each, and so on."""

    sets: tuple[Pods, ...]


@dataclass(frozen=True, slots=True)
class Minimum:
    """A PodGroup gets another minCount."""

    group: str
    minimum: int


@dataclass(frozen=True, slots=True)
class Delete:
    """A set of pods is deleted, or a PodGroup or CompositePodGroup with its finalizers."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Ungate:
    """A set of pods loses its scheduling gates."""

    name: str


@dataclass(frozen=True, slots=True)
class Later:
    """Pods of later steps start in a later second than all of before; start times have seconds."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget that lets no pod of an app be disrupted: `minimum` of them exist."""

    app: str
    minimum: int


@dataclass(frozen=True, slots=True)
class Volume:
    """A bound PersistentVolumeClaim of the access mode ReadWriteOncePod."""

    name: str


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one class on a node."""

    node: str
    count: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim for one device."""

    name: str


@dataclass(frozen=True, slots=True)
class Expect:
    """Where the pods are once the schedulers have done what they do.

    `pods` has by set the number of pods in each state, and all others are as expected before.
    `at` has by set the nodes that its running pods may use. `together` has pairs of a topology key
    and sets whose running pods are in one domain. `status` has the reasons of the conditions of
    groups, `reserved` by claim the groups or the sets of pods that it is reserved for.
    """

    pods: Mapping[str, Counter[str]]
    at: Mapping[str, str]
    together: tuple[tuple[str, str], ...]
    status: Mapping[str, str]
    reserved: Mapping[str, str]


Step = (
    Nodes | Group | Pods | InTurn | Minimum | Delete | Ungate | Later | Budget | Volume
    | Devices | Claim | Expect
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Differs:
    """Why Muster differs on purpose, and what is expected of it at the end instead."""

    why: str
    outcome: Expect


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation of Kubernetes' tests. `source` has the file, a colon and what finds the case.

    Raises ValueError if an expectation does not count each pod that exists once.
    """

    name: str
    source: str
    steps: tuple[Step, ...]
    differs: Differs | None = None

    def __post_init__(self) -> None:
        _counted(self.name, self.steps)
        if self.differs is not None:
            _counted(self.name, self.of("muster-scheduler"))

    def of(self, scheduler: str) -> tuple[Step, ...]:
        """Return the steps for a scheduler; Muster's may end with another expectation."""
        if self.differs is None or scheduler != "muster-scheduler":
            return self.steps
        return (*self.steps[:-1], self.differs.outcome)


def situation(name: str, source: str, *steps: Step, differs: Differs | None = None) -> Situation:
    return Situation(name, source, steps, differs)


def muster(why: str, **outcome: Any) -> Differs:
    """State why Muster differs; `outcome` as for `expect`, instead of the last step."""
    return Differs(why, expect(**outcome))


def nodes(domains: str, *, cpu: int = 2, tainted: bool = False) -> Nodes:
    """Return nodes by their domains, such as "z1/r1 z1/r2": racks, zone/rack or zone/block/rack.

    "-" is a node without domains.
    """
    paths = [() if each == "-" else tuple(each.split("/")) for each in domains.split()]
    return Nodes(tuple(paths), cpu, tainted)


def group(name: str, minimum: int | None = None, **spec: Any) -> Group:
    return Group(name, minimum, **spec)


def tree(name: str, minimum: int | None = None, **spec: Any) -> Group:
    """Return a CompositePodGroup."""
    return Group(name, minimum, composite=True, **spec)


def pods(name: str, count: int, group: str = "", *, cpu: str | int = 1, **spec: Any) -> Pods:
    return Pods(name, count, group, str(cpu), **spec)


def in_turn(*sets: Pods) -> InTurn:
    return InTurn(sets)


def delete(name: str) -> Delete:
    """Delete a set of pods."""
    return Delete(name, "pods")


def delete_group(name: str, *, composite: bool = False) -> Delete:
    return Delete(name, "composite" if composite else "group")


def expect(
    *more: Mapping[str, str],
    at: Mapping[str, str] | None = None,
    together: tuple[tuple[str, str], ...] = (),
    status: Mapping[str, str] | None = None,
    reserved: Mapping[str, str] | None = None,
    **sets: str,
) -> Expect:
    """Return what is expected; sets of pods are as in `gang="3 run 1 refused"`."""
    for each in more:
        sets |= each
    counts = {name: _counts(text) for name, text in sets.items()}
    return Expect(counts, at or {}, together, status or {}, reserved or {})


def _counts(text: str) -> Counter[str]:
    words = text.split()
    found = Counter(
        {state: int(number) for number, state in zip(words[::2], words[1::2], strict=True)}
    )
    if unknown := found.keys() - set(STATES):
        raise ValueError(f"{text!r} has an unknown state {unknown}")
    return found


def _counted(name: str, steps: tuple[Step, ...]) -> None:
    sizes: dict[str, int] = {}
    expected: dict[str, Counter[str]] = {}
    for step in steps:
        match step:
            case Pods():
                sizes[step.name] = step.count
            case InTurn():
                sizes |= {each.name: each.count for each in step.sets}
            case Delete(kind="pods"):
                del sizes[step.name]
                expected.pop(step.name, None)
            case Expect():
                expected |= step.pods
                wrong = {
                    it for it in sizes.keys() | expected.keys() if not _adds_up(it, sizes, expected)
                }
                if wrong:
                    raise ValueError(f"{name}: the numbers of {sorted(wrong)} do not add up")
    if not isinstance(steps[-1], Expect):
        raise ValueError(f"{name}: the last step expects nothing")


def _adds_up(name: str, sizes: Mapping[str, int], expected: Mapping[str, Counter[str]]) -> bool:
    return name in sizes and name in expected and sizes[name] == expected[name].total()

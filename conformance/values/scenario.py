"""Scenarios: YAML files of `scenarios/`, decoded and checked.

A scenario has nodes, steps and expectations. Everything that needs no expectation, such as "never
half", is checked in each scenario (`checks/`).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

FOLDER: Final = Path(__file__).parents[1] / "scenarios"

State = Mapping[str, int]
"""Numbers of placed pods by gang."""

Need = Literal["minimum", "topology", "preemption", "kill"]
"""What an adapter or the run must offer for a scenario.

The need `minimum` is a minimum below the number of members, `kill` a command that kills the
scheduler.
"""


class ScenarioError(ValueError):
    """A scenario file that cannot be read; the message names the file and the field."""


class _Strict(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A mapping of the YAML file, whose unknown keys are errors."""


class Nodes(_Strict, frozen=True, kw_only=True):
    """`count` equal nodes, for `cpu` pods each; `rack` is the value of their topology label."""

    count: int = 1
    cpu: int
    rack: str = ""


class Gang(_Strict, frozen=True, kw_only=True):
    """`members` pods of one CPU, of which `minimum` start together or none does.

    Preemption evicts all of them or none. A minimum of 0 means all members. `one_rack` requires
    that all run in one rack. The kit creates a new pod for each that is deleted, as a controller
    does. With `seconds`, each pod ends so long after its placement. `copies` are numbered gangs,
    `name-1` and so on.
    """

    name: str
    members: int
    copies: int = 1
    minimum: int = 0
    priority: int = 0
    one_rack: bool = False
    seconds: float = 0

    @property
    def least(self) -> int:
        return self.minimum or self.members


class Pods(_Strict, frozen=True, kw_only=True):
    """`members` pods without a group, each on its own; `seconds` as of a gang."""

    name: str
    members: int
    priority: int = 0
    seconds: float = 0

    @property
    def least(self) -> int:
        return 1


class Lose(_Strict, frozen=True, kw_only=True):
    """Delete `pods` of the placed pods of a gang, as a crash does."""

    gang: str
    pods: int = 1


class Step(_Strict, frozen=True, kw_only=True):
    """One step: exactly one field is set.

    `gangs` are created at the same time, their pods interleaved. `remove_placed` removes a gang
    that is placed. `lose_node_of` deletes a node with its pods. `kill_at` kills the scheduler
    during the next steps, once so many pods are placed. `places` waits for a total number of placed
    pods, `evicts` until a group loses one, `reaches` for these numbers or more. `settles` waits for
    exactly these numbers, and until no placement changes; it is one state, or a list of which one
    must be reached. `complete` is the same with a number of gangs that have all members, where the
    others have none.
    """

    nodes: Sequence[Nodes] | UnsetType = UNSET
    gangs: Sequence[Gang] | UnsetType = UNSET
    pods: Pods | UnsetType = UNSET
    remove: str | UnsetType = UNSET
    remove_placed: bool | UnsetType = UNSET
    lose: Lose | UnsetType = UNSET
    lose_node_of: str | UnsetType = UNSET
    kill_scheduler: bool | UnsetType = UNSET
    kill_at: int | UnsetType = UNSET
    places: int | UnsetType = UNSET
    evicts: str | UnsetType = UNSET
    reaches: State | UnsetType = UNSET
    settles: State | Sequence[State] | UnsetType = UNSET
    complete: int | UnsetType = UNSET

    def verb(self) -> tuple[str, Any]:
        """Return the name and the value of the field that is set."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        ((name, value),) = ((name, value) for name, value in fields if value is not UNSET)
        return name, value


class Expect(_Strict, frozen=True, kw_only=True):
    """Expectations beyond the general checks.

    `broken` is the maximum number of units that preemption breaks: a gang, or a pod without one,
    each time that it loses pods by eviction. The gangs in `order` reach their minimum in this
    order.
    """

    broken: int = 0
    order: Sequence[str] = ()


class Scenario(_Strict, frozen=True, kw_only=True):
    """One scenario; its name is that of its file. `outcome` states in words what must happen."""

    name: str = ""
    title: str
    outcome: str
    core: bool = False
    needs: frozenset[Need] = frozenset()
    steps: Sequence[Step]
    expect: Expect = Expect()

    def groups(self) -> dict[str, Gang | Pods]:
        """Return what the steps create, by name."""
        found: list[Gang | Pods] = []
        for step in self.steps:
            found += step.gangs or ()
            found += [step.pods] if step.pods else []
        return {each.name: each for each in found}

    def missing(self, offered: Iterable[str]) -> list[str]:
        """Return the needs that are not offered."""
        return sorted(self.needs - set(offered))


def load(folder: Path = FOLDER) -> list[Scenario]:
    """Return the scenarios of a folder by name. Raises ScenarioError."""
    found = [read(path) for path in sorted(folder.glob("*.yaml"))]
    if not found:
        raise ScenarioError(f"{folder} has no scenario (*.yaml)")
    return found


def read(path: Path) -> Scenario:
    """Return the scenario of one file. Raises ScenarioError."""
    try:
        raw = msgspec.convert(yaml.safe_load(path.read_text("utf-8")), Scenario)
        steps = [
            replace(step, gangs=_numbered(step.gangs)) if step.gangs else step for step in raw.steps
        ]
        made = replace(raw, name=path.stem, steps=steps)
        _check(made)
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"{path.name}: {error}") from error
    return made


def _numbered(gangs: Sequence[Gang]) -> list[Gang]:
    """Return each gang, or its copies."""
    return [
        replace(gang, name=f"{gang.name}-{number}", copies=1) if gang.copies > 1 else gang
        for gang in gangs
        for number in range(1, gang.copies + 1)
    ]


def _check(scenario: Scenario) -> None:
    """Raise ValueError for a step without exactly one verb, or with an unknown group."""
    known = scenario.groups()
    named = set(scenario.expect.order)
    for number, step in enumerate(scenario.steps, 1):
        try:
            verb, value = step.verb()
        except ValueError:
            raise ValueError(f"step {number} must have exactly one verb") from None
        match verb:
            case "reaches":
                named.update(value)
            case "settles":
                named.update(*states(value))
            case "remove" | "lose_node_of" | "evicts":
                named.add(value)
            case "lose":
                named.add(value.gang)
    if unknown := named - set(known):
        raise ValueError(f"no step creates {', '.join(sorted(unknown))}")


def states(value: State | Sequence[State]) -> Sequence[State]:
    """Return a step's states as a list."""
    return [value] if isinstance(value, Mapping) else value

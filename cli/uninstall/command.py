"""Output and exit code of `muster uninstall`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from api.scheduler_names import USUAL, SchedulerNames
from api.wording import count
from cli.uninstall.errors import StillThereError
from cli.uninstall.execute import Removal, Say
from cli.uninstall.found import read
from cli.uninstall.plan import (
    Action,
    NamespaceUse,
    RemovalState,
    Step,
    counted_line,
    handovers,
    in_use,
    plan,
)
from cli.uninstall.release import Handover, HandoverMethod
from cli.uninstall.remaking import Remaking
from kube.base.errors import ConfigError
from kube.client.client import Client

REFUSED: Final = 1
"""The exit code if gangs are in use, or an object is not deleted in time."""
_MOST: Final = 20
"""Namespaces, and objects of one, that are listed one by one."""


@dataclass(frozen=True, slots=True)
class HelmRelease:
    """The Helm release whose hook runs the command, and the revision that Helm was uninstalling."""

    name: str
    revision: str
    namespace: str

    @staticmethod
    def parse(text: str, namespace: str) -> HelmRelease:
        """Return the release for `NAME:REVISION`. Raises ConfigError for another form."""
        name, colon, revision = text.rpartition(":")
        if not name or not colon or not revision.isdecimal():
            raise ConfigError(f"--helm-release {text}: must be NAME:REVISION")
        return HelmRelease(name, revision, namespace)

    @property
    def rollback(self) -> str:
        """The command that ends the state `uninstalling`, in which Helm upgrades nothing."""
        return f"helm rollback {self.name} {self.revision} --namespace {self.namespace}"

    @property
    def upgrade(self) -> str:
        """The command after which the hook runs with `--release`."""
        return (
            f"helm upgrade {self.name} CHART --namespace {self.namespace}"
            " --reuse-values --set uninstall.release=true"
        )

    @property
    def uninstall(self) -> str:
        """The command that was refused."""
        return f"helm uninstall {self.name} --namespace {self.namespace}"


async def uninstall(
    client: Client,
    namespace: str,
    say: Say,
    *,
    release: bool,
    dry_run: bool,
    timeout: float,
    prepare: bool = False,
    names: SchedulerNames = USUAL,
    helm: HelmRelease | None = None,
) -> int:
    """Remove Muster, or print the plan; return the exit code. Raises kube errors."""
    found = await read(client, namespace, names, release=release, prepare=prepare)
    if dry_run:
        _all(say, dry_run_lines(found, release=release, prepare=prepare))
        return REFUSED if in_use(found) and not release else 0
    try:
        # The work that an earlier run began is completed even if this run is refused: a recorded
        # Job does not exist until it is recreated.
        for record in found.records:
            await Remaking(client, namespace, timeout, names).restore(record)
        if not release and (uses := in_use(found)):
            _all(say, refusal_lines(uses, helm))
            return REFUSED
        removal = Removal(client, namespace, release, say, timeout, prepare, names)
        found = await removal.run()
    except StillThereError as error:
        say(f"muster: {error}")
        return REFUSED
    _all(say, unreleased_lines(removal.unreleased, names))
    _all(say, kept_lines(found, namespace))
    say("Muster is stopped: delete the rest of it now" if prepare else "Muster is uninstalled")
    return 0


def refusal_lines(
    uses: Mapping[str, NamespaceUse], helm: HelmRelease | None = None
) -> Iterator[str]:
    """Yield why nothing was removed, and how to continue."""
    yield f"Muster is in use in {count(len(uses), 'namespace')}; nothing was deleted:"
    for name in list(uses)[:_MOST]:
        yield f"  {name}: {uses[name]}"
    if len(uses) > _MOST:
        yield f"  and {count(len(uses) - _MOST, 'more namespace')}"
    if helm is not None:
        yield from _helm_lines(helm)
        return
    yield "Wait until these workloads finish, or use --release: running pods keep running, and the"
    yield "default scheduler gets the waiting pods. Use --release --dry-run to show each step."


def _helm_lines(helm: HelmRelease) -> Iterator[str]:
    """Yield the ways to continue after Helm's hook refused."""
    yield "Wait until these workloads finish, and repeat the command. To keep Muster instead:"
    yield f"  {helm.rollback}"
    yield "To uninstall Muster now, run these commands in order. Running pods keep running, and the"
    yield "default scheduler gets the waiting pods. CHART is the chart that you installed."
    yield f"  {helm.rollback}"
    yield f"  {helm.upgrade}"
    yield f"  {helm.uninstall}"


def dry_run_lines(found: RemovalState, *, release: bool, prepare: bool = False) -> Iterator[str]:
    """Yield the plan, with what would be left to users."""
    uses = in_use(found)
    if uses and not release:
        yield from refusal_lines(uses)
        return
    steps = plan(found, release=release, prepare=prepare)
    yield "steps, in this order:" if steps else "no objects of Muster found"
    yield from (f"  {line}" for line in _step_lines(steps))
    if release:
        unreleased = [it for it in handovers(found) if it.way is HandoverMethod.LEFT]
        yield from unreleased_lines(unreleased, found.names)
    yield from kept_lines(found, "")


def unreleased_lines(
    unreleased: Sequence[Handover], names: SchedulerNames = USUAL
) -> Iterator[str]:
    """Yield the Jobs and pods that cannot be released without loss, and a command for each."""
    if not unreleased:
        return
    yield f"{count(len(unreleased), 'object')} could not be handed off:"
    in_order = sorted(unreleased, key=lambda it: it.target.namespace)
    # One namespace with thousands of pods must not hide the others.
    for namespace, found in groupby(in_order, key=lambda it: it.target.namespace):
        there = list(found)
        for it in there[:_MOST]:
            yield f"  {it}"
            yield f"    {it.command}"
        if len(there) > _MOST:
            yield f"  and {len(there) - _MOST} more in namespace {namespace}"
    yield f"Pods of {names.phrase} without a node wait until a scheduler with that name runs."
    yield "Without the commands above, add a kube-scheduler profile with that schedulerName."


def kept_lines(found: RemovalState, namespace: str) -> Iterator[str]:
    """Yield the objects that stay on purpose."""
    if found.quotas:
        yield "these ResourceQuotas are kept, because they also limit users without Muster:"
        yield from (
            f"  kubectl -n {it.namespace} delete resourcequota {it.name}" for it in found.quotas
        )
    if found.foreign:
        yield "Muster's namespace is kept, because it has other objects:"
        yield from (f"  {it}" for it in found.foreign[:_MOST])
        yield f"  kubectl delete namespace {namespace or found.foreign[0].namespace}"


def _step_lines(steps: Iterable[Step]) -> Iterator[str]:
    """Yield one line for each step; finalizers and annotations are only counted."""
    for action, same in groupby(steps, key=lambda step: step.action):
        alike = list(same)
        if action in {Action.DROP_FINALIZERS, Action.DROP_ANNOTATIONS}:
            yield counted_line(alike)
        else:
            yield from map(str, alike)


def _all(say: Say, lines: Iterable[str]) -> None:
    for line in lines:
        say(line)

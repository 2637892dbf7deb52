"""What an owner of groups says that it waits for, where it has no group that could be explained.

So it is for a gang that was refused, or whose pods nobody has made yet.
"""

from __future__ import annotations

from typing import Final

from analysis.explain.plain_text import clean
from api.constants import ANNOTATION_WAITING_FOR, TRAIN_JOB
from api.reading import annotations_of, text
from kube.base.errors import Forbidden, NotFound
from kube.client.client import Client
from kube.client.resources import (
    DEPLOYMENTS,
    JOBS,
    JOBSETS,
    LEADER_WORKER_SETS,
    STATEFUL_SETS,
    Resource,
)

TRAIN_JOBS: Final = Resource(*TRAIN_JOB)
NAMES: Final = {
    JOBS: ("job", "jobs"),
    JOBSETS: ("jobset", "jobsets"),
    LEADER_WORKER_SETS: ("leaderworkerset", "leaderworkersets", "lws"),
    STATEFUL_SETS: ("statefulset", "statefulsets", "sts"),
    DEPLOYMENTS: ("deployment", "deployments", "deploy"),
    TRAIN_JOBS: ("trainjob", "trainjobs"),
}
"""The kinds that Muster writes on, and what kubectl calls them."""

KINDS: Final = {name: resource.kind for resource, names in NAMES.items() for name in names}


async def owner_lines(client: Client, what: str, namespace: str) -> list[str]:
    """What `kind/name` says that it waits for; nothing for other kinds, and where it says nothing.

    Raises kube errors.
    """
    word, _, name = what.partition("/")
    kind = word.lower().partition(".")[0]
    resource = next((it for it, names in NAMES.items() if kind in names), None)
    if resource is None or not name:
        return []
    try:
        notes = annotations_of(await client.get(resource, name, namespace))
    except (NotFound, Forbidden):
        return []
    said = text(notes.get(ANNOTATION_WAITING_FOR))
    about = f"{resource.kind} {namespace}/{name}: it has no group now"
    return [about, f"  waits: {clean(said)}"] if said else []

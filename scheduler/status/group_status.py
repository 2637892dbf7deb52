"""The wanted status of a group, derived from its current one. No I/O.

Users can write the current status by hand, so fields of an unexpected type are dropped or replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from api.constants import (
    CONDITION_DISRUPTION_TARGET,
    CONDITION_HOLD_EXPIRED,
    CONDITION_START_TIMEOUT,
    REASON_SCHEDULED,
    REASON_START_TIMEOUT,
)
from api.reading import listing, text
from kube.client.meta import Json
from scheduler.status.conditions import GroupView, blocker_json, condition_type

_EXPIRED: Final = "expected pods did not appear in time: their places are released"


def wanted_status(
    view: GroupView,
    before: Json,
    generation: int,
    now: str,
    leaving: Callable[[], bool],
    *,
    held: Json | None = None,
) -> tuple[Json, bool]:
    """Return the complete wanted status, and True if status or reason of its condition changed.

    `leaving` returns True if pods of the group terminate or are being evicted. It may visit all
    pods, so it is called only if needed. `held` is `status.heldPlaces`, None if there are none.
    """
    # All other fields and conditions remain: other writers may own them.
    status = {**before, **view.counts}
    old = status.pop("blocker", None)
    status.pop("heldPlaces", None)
    if held is not None:
        status["heldPlaces"] = held
    if view.blocker is not None:
        # `since` remains while the kind is the same: it shows how long the group waits for this.
        same = isinstance(old, dict) and old.get("kind") == view.blocker.kind
        since = _moment(old.get("since")) if same else None
        status["blocker"] = blocker_json(view.blocker, view.group.key, since or now)
    conditions, changed = _with_condition(view, _conditions(before), generation, now)
    # Not while pods still leave: the eviction that the condition reports is not over then.
    marked = any(_is_disruption_target(each) for each in conditions)
    if view.group.bound and marked and not leaving():
        conditions = [
            _cleared(each, now) if _is_disruption_target(each) else each for each in conditions
        ]
    conditions = _with_start_wait(view, conditions, generation)
    status["conditions"] = _with_hold(conditions, held, generation, now)
    return status, changed


def _conditions(status: Json) -> list[Json]:
    """Return the conditions that are objects with a type."""
    found = listing(status.get("conditions"))
    return [each for each in found if isinstance(each, dict) and text(each.get("type"))]


def _is_disruption_target(condition: Json) -> bool:
    return bool(
        condition.get("type") == CONDITION_DISRUPTION_TARGET and condition.get("status") == "True"
    )


def _cleared(condition: Json, now: str) -> Json:
    """Return the DisruptionTarget condition of a group that was evicted and is scheduled again."""
    changes = {"status": "False", "reason": REASON_SCHEDULED, "message": "scheduled again"}
    return {**condition, **changes, "lastTransitionTime": now}


def _with_condition(
    view: GroupView, before: list[Json], generation: int, now: str
) -> tuple[list[Json], bool]:
    """Return the conditions with that of the group set, and True if its status or reason changed.

    Once its status is True, it remains True.
    """
    name = condition_type(view.group)
    old = next((each for each in before if each["type"] == name), None)
    if view.reason is None:
        return before, False
    if old is not None and _is_reported(view, old):
        return before, False
    if old is not None and old.get("status") == "True":
        # Only the message may change: the domain in which the group runs.
        current = {**old, "message": view.message} if view.scheduled else old
        return [current if each is old else each for each in before], False
    status = "True" if view.scheduled else "False"
    changed = old is None or (old.get("status"), old.get("reason")) != (status, view.reason)
    stays = old is not None and old.get("status") == status
    # By Kubernetes' convention, only a change of the status is a transition.
    since = _moment(old.get("lastTransitionTime")) if stays and old is not None else None
    condition = {
        "type": name,
        "status": status,
        "reason": view.reason,
        "message": view.message,
        "observedGeneration": generation,
        "lastTransitionTime": since or now,
    }
    return [each for each in before if each["type"] != name] + [condition], changed


def _is_reported(view: GroupView, condition: Json) -> bool:
    """Return True if a shared tree with pods of two schedulers has a condition already.

    Both report it. If each corrected the words of the other, they would never stop.
    """
    spec, waits = view.group.spec, condition.get("status") == "False"
    if spec is None or not spec.shared or view.scheduled or not waits:
        return False
    return view.group.has_foreign_pods


def _with_start_wait(view: GroupView, conditions: list[Json], generation: int) -> list[Json]:
    """Return the conditions with the wait of a root for its first start, from which it continues.

    A root that is placed at once gets none.
    """
    wait = view.group.start_wait
    old = next((each for each in conditions if each["type"] == CONDITION_START_TIMEOUT), None)
    others = [each for each in conditions if each is not old]
    if wait is None:
        return others
    if old is None and (view.reason is None or view.scheduled):
        return conditions
    over = bool(wait.given_up)
    condition = {
        "type": CONDITION_START_TIMEOUT,
        "status": "True" if over else "False",
        "reason": REASON_START_TIMEOUT if over else "Waiting",
        "message": wait.given_up or f"it has {wait.limit:g} s from lastTransitionTime to start",
        "observedGeneration": generation,
        "lastTransitionTime": wait.since,
    }
    return [*others, condition]


def _with_hold(conditions: list[Json], held: Json | None, generation: int, now: str) -> list[Json]:
    """Return the conditions with HoldExpired set or cleared, if places are or were held."""
    # Expired places remain in the status without pods, until places are held again.
    expired = held is not None and not held["pods"]
    old = next((each for each in conditions if each["type"] == CONDITION_HOLD_EXPIRED), None)
    status = "True" if expired else "False"
    if (old is None and not expired) or (old is not None and old.get("status") == status):
        return conditions
    condition = {
        "type": CONDITION_HOLD_EXPIRED,
        "status": status,
        "reason": "HoldExpired" if expired else "HoldRestarted",
        "message": _EXPIRED if expired else "places can be held again",
        "observedGeneration": generation,
        "lastTransitionTime": now,
    }
    return [each for each in conditions if each is not old] + [condition]


def _moment(value: Any) -> str | None:
    """Return the value if it is a time, otherwise None."""
    # The API server rejects a status whose times have another form.
    written = text(value)
    try:
        datetime.fromisoformat(written)
    except ValueError:
        return None
    return written


_NODES: Final = re.compile(r"0/\d+ nodes are available")
"""Beginning of a message about missing capacity."""

_NUMBER: Final = re.compile(r"\d+|s\b")
"""Numbers, and the endings that depend on them: 1 pod fits, 2 pods fit."""


def only_numbers_differ(status: Json, before: Json) -> bool:
    """Return True if both report missing capacity, for as many pods and in the same words.

    Then only the numbers of nodes and of pods that fit differ. Such a status is written later,
    because these numbers change with every node and pod of the cluster.
    """
    bare = _without_numbers(status)
    return bare is not None and bare == _without_numbers(before)


def _without_numbers(status: Json) -> Json | None:
    """Return the status without such numbers; None if it does not report missing capacity."""
    blocker = status.get("blocker")
    if blocker is None:
        # A group of Kubernetes' own: its condition says all.
        said = [(it, text(it.get("message"))) for it in _conditions(status)]
        if not any(_NODES.match(message) for _, message in said):
            return None
        bare = [{**it, "message": _NUMBER.sub("", message)} for it, message in said]
        return {**status, "conditions": bare}
    if not isinstance(blocker, dict) or blocker.get("kind") != "capacity":
        return None
    first = next(iter(listing(blocker.get("counts"))), None)
    return {
        **status,
        "blocker": [blocker.get(key) for key in ("needed", "impossible", "since")],
        "summary": _NUMBER.sub("", text(blocker.get("summary"))),
        "conditions": [{**each, "message": ""} for each in _conditions(status)],
        "reason": first.get("reason") if isinstance(first, dict) else None,
    }

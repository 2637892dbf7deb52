"""The match conditions that look at a pod's schedulerName: they have to say the configured names.

The manifests say the usual name, as a list of one. By URL the webhook registers what is rendered
here; by Service an administrator applies it, and this process says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from api.scheduler_names import USUAL, SchedulerNames
from kube.client.meta import Json


def _listed(schedulers: SchedulerNames) -> str:
    """The names as CEL; no valid name has a character that would need an escape."""
    return f"[{', '.join(repr(name) for name in schedulers.all)}]"


_PLACEHOLDER: Final = f"in {_listed(USUAL)}"


def rendered(manifest: Json, schedulers: SchedulerNames) -> Json:
    """The webhook configuration with these names in its conditions."""
    listed = f"in {_listed(schedulers)}"
    webhooks = [
        {
            **webhook,
            "matchConditions": [
                {**it, "expression": it["expression"].replace(_PLACEHOLDER, listed)}
                for it in webhook["matchConditions"]
            ],
        }
        if "matchConditions" in webhook
        else webhook
        for webhook in manifest["webhooks"]
    ]
    return {**manifest, "webhooks": webhooks}


def missing_names(found: Json, wanted: Json, schedulers: SchedulerNames) -> Iterator[str]:
    """What is registered without a configured name, as sentences.

    Only those conditions of `wanted`, rendered, count that list the names; what an administrator
    wrote besides is not looked at.
    """
    listed = f"in {_listed(schedulers)}"
    registered = {
        (webhook["name"], it["name"]): it["expression"]
        for webhook in found.get("webhooks") or ()
        for it in webhook.get("matchConditions") or ()
    }
    for webhook in wanted["webhooks"]:
        for it in webhook.get("matchConditions", ()):
            expression = registered.get((webhook["name"], it["name"]))
            if listed not in it["expression"] or expression is None:
                continue
            lacks = [name for name in schedulers.all if f"'{name}'" not in expression]
            if lacks:
                yield f"condition {it['name']} of {webhook['name']} lacks {', '.join(lacks)}"

"""The match conditions on a pod's schedulerName, which must list the configured names.

The manifests list the default name. By URL, the webhook registers the conditions rendered here. By
Service, an administrator applies them, and this process reports what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from api.scheduler_names import USUAL, SchedulerNames
from kube.client.meta import Json


def _listed(schedulers: SchedulerNames) -> str:
    """Return the names as a CEL list."""
    # No valid name has a character that CEL would need to escape.
    return f"[{', '.join(repr(name) for name in schedulers.all)}]"


_PLACEHOLDER: Final = f"in {_listed(USUAL)}"


def rendered(manifest: Json, schedulers: SchedulerNames) -> Json:
    """Return the webhook configuration with these names in its conditions."""
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
    """Yield a sentence for each registered condition that lacks a configured name.

    Only conditions of `wanted` (rendered) that list the names count. Other conditions of the
    administrator are not checked.
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

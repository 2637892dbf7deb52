"""The readiness of this process for reviews, with the reasons against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, WORKLOAD
from kube.client.resources import PRIORITY_CLASSES
from webhooks.reviews.metrics import READY

log = structlog.get_logger(__name__)

# One check for each resource that the webhook watches, by its plural.
CACHES = (PRIORITY_CLASSES.plural, WORKLOAD.plural, COMPOSITE_POD_GROUP.plural, POD_GROUP.plural)
REGISTRATION = "registration"
SERVING = "serving"

CHECKS = (*CACHES, REGISTRATION, SERVING)


class Readiness:
    """Named checks, each with its current problem; ready if there is none.

    A check is unmet until it is reported as met.
    """

    def __init__(self, checks: tuple[str, ...] = CHECKS) -> None:
        self._problems: dict[str, str] = dict.fromkeys(checks, "not checked yet")
        self._checks = checks
        READY.set(0)

    @property
    def ready(self) -> bool:
        """True if no check has a problem."""
        return not self._problems

    @property
    def problems(self) -> dict[str, str]:
        """The problem of each unmet check; empty when ready."""
        return dict(self._problems)

    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """Return each check by name as a function, for `StatusServer`."""
        return {check: partial(self.holds, check) for check in self._checks}

    def holds(self, check: str) -> bool:
        """Return True if the check has no problem."""
        return check not in self._problems

    def met(self, check: str) -> None:
        """Record that the check passed; log it once, and once that none is left."""
        if self._problems.pop(check, None) is not None:
            # No `ready: false` next to a passed check: it reads as if the check had failed.
            log.info("readiness check passed", check=check, waiting_for=sorted(self._problems))
            if self.ready:
                log.info("webhook is ready")
        READY.set(self.ready)

    def unmet(self, check: str, problem: str) -> None:
        """Record that the check failed; log a new reason."""
        if self._problems.get(check) != problem:
            log.warning("readiness check failed", check=check, error=problem)
        self._problems[check] = problem
        READY.set(0)

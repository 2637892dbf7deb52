"""Writes of replicas that no longer lead, found in the audit logs of all API servers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from e2e.harness.muster import CONTROLLER, NAMESPACE, SCHEDULER
from e2e.harness.objects import Json

_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_FREE = ("events", "leases", "selfsubjectaccessreviews", "selfsubjectreviews")
"""What a replica writes without the lease."""


class Fences:
    """The leaders in the order of the audit logs.

    `credentials` are the replicas by the identifiers of their tokens.
    """

    def __init__(self, logs: Sequence[Path], credentials: Mapping[str, str]) -> None:
        self.writes = 0
        """Number of writes of leaders so far."""
        self._credentials = credentials
        self._read = dict.fromkeys(logs, 0)
        self._holders: dict[str, str] = {}

    def late(self) -> list[str]:
        """Return a line for each new write of a replica after another one took its lease.

        Call it at rest: a request is in the log once it is complete.
        """
        events = [event for log in self._read for event in self._new(log)]
        events.sort(key=lambda event: str(event["requestReceivedTimestamp"]))
        return [line for event in events for line in self._judge(event)]

    def _new(self, log: Path) -> Iterator[Json]:
        with log.open("rb") as file:
            file.seek(self._read[log])
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read[log] += len(line)
                event = json.loads(line)
                if event["stage"] == "ResponseComplete" and event["verb"] in _WRITES:
                    yield event

    def _judge(self, event: Json) -> Iterator[str]:
        extra = event["user"].get("extra") or {}
        (credential,) = extra.get("authentication.kubernetes.io/credential-id") or ("",)
        name = self._credentials.get(credential, "")
        process, target = name.partition("-")[0], event.get("objectRef") or {}
        if process not in (SCHEDULER, CONTROLLER) or event["responseStatus"]["code"] >= 300:
            return
        if _is_lease(target, process):
            self._holders[process] = name
        if target.get("resource") in _FREE:
            return
        self.writes += 1
        # The first lease is created, without a name in the log; its first renewal follows soon.
        holder = self._holders.get(process, name)
        if holder != name:
            when, what = event["requestReceivedTimestamp"], event["requestURI"]
            yield f"{name} wrote {event['verb']} {what} at {when}, when {holder} had the lease"


def _is_lease(target: Json, process: str) -> bool:
    wanted = ("leases", NAMESPACE, f"muster-{process}")
    return (target.get("resource"), target.get("namespace"), target.get("name")) == wanted

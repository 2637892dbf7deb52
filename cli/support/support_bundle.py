"""`muster support-bundle`: one archive with the data that explains an installation.

Each file is collected separately; `missing.json` names those that cannot be read.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from api.constants import COSCHEDULING, COSCHEDULING_GROUP, GROUP, NATIVE_GROUP, RESERVATION
from cli.doctor.examination import Examination, Options
from cli.doctor.findings import report
from cli.doctor.health import Process
from cli.doctor.installation import SELECTOR, read_definitions, read_version
from cli.doctor.leaders import NAMES
from cli.doctor.registration import read_registration
from cli.support import redaction
from cli.trees.listing import COMPOSITE_POD_GROUPS, NATIVE, POD_GROUPS, WORKLOADS
from kube.base.build import read_build
from kube.base.errors import KubeError
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.paging import all_of
from kube.client.resources import DEPLOYMENTS, EVENTS, LEASES, PODS, Resource

MOST_OBJECTS: Final = 2000
"""Objects of a kind, and events, that the archive includes."""

LOG_BYTES: Final = 2 * 1024 * 1024
"""Bytes of a container's log that the archive includes."""

LOG_LINES: Final = 20_000
"""Lines of a container's log that the archive includes: the last ones."""

SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a process's page or snapshot. A larger one is missing from the archive."""

_PODS: Final = 10
"""Pods of Muster whose logs and pages the archive includes."""

_OURS: Final = (
    POD_GROUPS,
    COMPOSITE_POD_GROUPS,
    *NATIVE,
    WORKLOADS,
    RESERVATION,
    COSCHEDULING,
)

Members = dict[str, bytes]
"""Path in the archive -> content."""


@dataclass(slots=True)
class _Collection:
    client: Client
    members: Members = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    async def add(self, name: str, making: Awaitable[bytes]) -> None:
        """Add a file, or the reason why it is missing."""
        try:
            self.members[name] = await making
        except KubeError as problem:
            self.missing[name] = redaction.scrubbed(str(problem))

    async def objects(
        self,
        name: str,
        resource: Resource,
        keep: Callable[[Json], Json],
        namespace: str | None = None,
        **chosen: str,
    ) -> None:
        """Add the objects of a kind."""

        async def read() -> bytes:
            found = await all_of(self.client, resource, namespace, most=MOST_OBJECTS, **chosen)
            return _json({"most": MOST_OBJECTS, "items": [keep(one) for one in found]})

        await self.add(name, read())


async def collect(client: Client, options: Options) -> Members:
    """Collect all files of the archive. Raises kube errors if the cluster is unreachable."""
    examination = Examination(client, options)
    # First, as it raises if the cluster is unreachable: then there is no archive at all.
    findings = await examination.run()
    doctor = report(findings, read_build().version)
    found = _Collection(client, {"doctor.json": _json(doctor)})
    await found.add("versions.json", _versions(client))
    for resource in _OURS:
        await found.objects(f"objects/{resource.full_name}.json", resource, redaction.of_ours)
    await _installed(found, options.namespace)
    await _events(found, options.namespace)
    for pod in examination.installed.pods[:_PODS]:
        await _logs(found, pod)
    for process in examination.processes[: _PODS + len(options.urls)]:
        if process in examination.responding:
            await _pages(found, process)
        else:
            # Each request would take its whole time; doctor.json has the reason.
            name = _file_name(process.about.name)
            found.missing[f"readyz/{name}.txt"] = "no response: see the check health"
    found.members["missing.json"] = _json(found.missing)
    return found.members


async def _versions(client: Client) -> bytes:
    build = read_build()
    kubernetes = await read_version(client)
    return _json({"muster": build.version, "commit": build.commit, "kubernetes": kubernetes})


async def _installed(found: _Collection, namespace: str) -> None:
    chosen = {"label_selector": SELECTOR}
    await found.objects(
        "objects/deployments.json", DEPLOYMENTS, redaction.of_deployment, namespace, **chosen
    )
    await found.objects("objects/pods.json", PODS, redaction.of_pod, namespace, **chosen)
    await found.add("objects/leases.json", _leases(found.client, namespace))
    await found.add("objects/registration.json", _registration(found.client))


async def _leases(client: Client, namespace: str) -> bytes:
    found = await all_of(client, LEASES, namespace, most=MOST_OBJECTS)
    return _json([redaction.of_lease(one) for one in found if one["metadata"]["name"] in NAMES])


async def _registration(client: Client) -> bytes:
    definitions = await read_definitions(client)
    registered = await read_registration(client, definitions)
    return _json(
        {
            "configurations": [
                redaction.of_registration(one) for one in registered.configurations.values() if one
            ],
            "definitions": [redaction.of_definition(one) for one in definitions.values() if one],
        }
    )


async def _events(found: _Collection, namespace: str) -> None:
    """Add the events on objects of ours, and in the namespace of Muster."""
    versions = {f"{resource.group}/{resource.version}" for resource in _OURS}
    for version in sorted(versions):
        assert version.startswith((GROUP, NATIVE_GROUP, COSCHEDULING_GROUP))
        await found.objects(
            f"events/{version.replace('/', '-')}.json",
            EVENTS,
            redaction.of_event,
            field_selector=f"involvedObject.apiVersion={version}",
        )
    await found.objects(f"events/{namespace}.json", EVENTS, redaction.of_event, namespace)


async def _logs(found: _Collection, pod: Json) -> None:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    path = PODS.path(namespace, name, "log")
    # The cause of a crash is in the log of the container's previous instance.
    for suffix, previous in (("", "false"), (".previous", "true")):
        params = {
            "tailLines": str(LOG_LINES),
            "limitBytes": str(LOG_BYTES),
            "timestamps": "true",
            "previous": previous,
        }
        await found.add(f"logs/{name}{suffix}.log", _log(found.client, path, params))


async def _log(client: Client, path: str, params: dict[str, str]) -> bytes:
    said = await client.request("GET", path, params=params, largest=2 * LOG_BYTES, accept="*/*")
    return _text(said)


async def _pages(found: _Collection, process: Process) -> None:
    name = _file_name(process.about.name)
    for page, path in (("readyz", "/readyz"), ("metrics", "/metrics")):
        await found.add(f"{page}/{name}.txt", _page(found.client, process, path))
    # Only schedulers with --debug serve it.
    await found.add(f"snapshot/{name}.json", _snapshot(found.client, process))


async def _page(client: Client, process: Process, path: str) -> bytes:
    return _text((await process.get(client, path, SNAPSHOT_BYTES)).body)


async def _snapshot(client: Client, process: Process) -> bytes:
    """Return the snapshot unscrubbed: `muster replay` must be able to read it.

    It contains names, and what decisions depend on.
    """
    return (await process.get(client, "/debug/snapshot", SNAPSHOT_BYTES)).body


def _text(said: bytes) -> bytes:
    return redaction.scrubbed(said.decode(errors="replace")).encode()


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(redaction.scrubbed_values(value)), indent=1)


def _file_name(text: str) -> str:
    """Return a name without characters that have a meaning in paths."""
    return "".join(one if one.isalnum() or one in "-." else "-" for one in text).strip("-.")[:100]


def write(file: Path, members: Members) -> None:
    """Write the archive, readable by this user only, completely or not at all. Raises OSError."""
    part = file.with_name(f"{file.name}.part")
    try:
        # The mode is set at creation: no other user can read the archive while it is written.
        with (
            open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw,
            tarfile.open(fileobj=raw, mode="w:gz") as archive,
        ):
            for name, content in sorted(members.items()):
                entry = tarfile.TarInfo(f"muster-support/{name}")
                entry.size, entry.mode = len(content), 0o600
                archive.addfile(entry, io.BytesIO(content))
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)

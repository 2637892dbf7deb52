"""Feature gates: those that are off, and processes whose gates differ from the configuration.

A process exposes its gates in its metrics: it read the configuration when it started.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from api.features import GATES, FeatureGates
from cli.doctor.findings import About, Check, Finding
from cli.doctor.health import Process
from kube.base.errors import KubeError
from kube.client.client import Client

_LARGEST: Final = 4 * 1024 * 1024
"""Bytes of the metrics page that are read. A larger page is ignored."""

_AT_ONCE: Final = 8
"""Concurrent requests to processes."""

_LINE: Final = re.compile(
    r'^muster_feature_enabled\{name="(\w+)",stage="\w*"\} ([01])(?:\.0)?$', re.MULTILINE
)

Switches = Mapping[str, bool]
"""Gate name -> whether it is on; empty for a process whose gates are unknown."""


async def read_gates(client: Client, processes: Sequence[Process]) -> list[Switches]:
    """Return the gates of each process.

    A process that cannot be reached has a finding of `health`.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(process: Process) -> Switches:
        async with limit:
            try:
                page = await process.get(client, "/metrics", _LARGEST)
            except KubeError:
                return {}
            return switches_of(page.body.decode(errors="replace"))

    return list(await asyncio.gather(*map(read, processes)))


def switches_of(metrics: str) -> Switches:
    """Return the gates on a page of metrics. A version before the gates has none."""
    return {name: value == "1" for name, value in _LINE.findall(metrics)}


def check_gates(
    where: About, gates: FeatureGates | None, processes: Sequence[Process], said: Sequence[Switches]
) -> Iterator[Finding]:
    """Yield the gates that are off, and the processes that differ from the configuration.

    `gates` are those of the configuration. If it cannot be read they are None, and the gates of the
    first process count.
    """
    known = [(process, one) for process, one in zip(processes, said, strict=True) if one]
    if gates is not None:
        wanted: Switches = {it.value: it in gates for it in GATES}
    elif known:
        where, wanted = known[0][0].about, known[0][1]
    else:
        return
    # Gates that are off by default are not worth a finding.
    off = [
        f"{it} ({gate.summary})"
        for it, gate in GATES.items()
        if gate.default and not wanted.get(it, True)
    ]
    if off:
        yield Check("feature-gates", where).info(f"feature gates that are off: {'; '.join(off)}")
    for process, one in known:
        odd = [
            f"{name} {'on' if on else 'off'}"
            for name, on in one.items()
            # A gate that this command does not know is one of another version, not a difference.
            if wanted.get(name, on) != on
        ]
        if odd:
            yield Check("feature-gates", process.about).warning(
                f"it runs with {', '.join(odd)}, which differs from {where}",
                "restart it, because processes read the configuration only when they start; "
                "if it reads another file, use one file for all processes",
            )

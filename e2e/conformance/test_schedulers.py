"""All scenarios with Muster, kube-scheduler's own gangs and scheduler-plugins' coscheduling.

`--record` writes the table.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from conformance.values.scenario import load
from e2e.conformance.kit import PROTECTED, kube_scheduler, muster_scheduler, run
from e2e.flows.native.control_plane import both_schedulers
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.downloads import SCHEDULER_PLUGINS
from e2e.harness.controlplane.places import KUBERNETES, ROOT
from e2e.harness.muster import Muster
from tools.marked_parts import replaced

PAGE = ROOT / "docs" / "conformance.md"

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.since("1.37", "Kubernetes serves these versions of its groups since 1.37"),
]


@pytest.fixture(scope="module")
def schedulers(server_kind: str) -> Iterator[tuple[ControlPlane, Muster]]:
    """A control plane with native groups, kube-scheduler, coscheduling and Muster."""
    with both_schedulers(server_kind, coscheduling=True, scheduler=PROTECTED) as both:
        yield both


async def test_muster_passes_and_the_page_shows_each_scheduler(
    schedulers: tuple[ControlPlane, Muster], tmp_path: Path, record: bool
) -> None:
    """Muster passes with its own groups and with native ones.

    The others may fail: each scenario only has to get a verdict.
    """
    cluster, muster = schedulers
    ours, theirs = muster_scheduler(muster), kube_scheduler(cluster)
    plugins = kube_scheduler(cluster, "coscheduling-scheduler")
    rows = {
        "Muster": (ours, ["--adapter=muster"]),
        "Muster, native groups": (ours, ["--adapter=native", "--scheduler=muster-scheduler"]),
        f"kube-scheduler {KUBERNETES}": (theirs, ["--adapter=native"]),
        f"coscheduling {SCHEDULER_PLUGINS.version}": (plugins, ["--adapter=coscheduling"]),
    }
    results: dict[str, Mapping[str, str]] = {}
    for name, (scheduler, options) in rows.items():
        results[name], text = await run(cluster.kubeconfig, scheduler, tmp_path, *options)
        print(text)
        assert "error" not in results[name].values(), text
    if record:
        _write(results)
    passed = {it.name: "passed" for it in load()}
    assert [results[name] for name in rows if name.startswith("Muster")] == [passed, passed]


def _write(results: Mapping[str, Mapping[str, str]]) -> None:
    """Write the table with its versions and date into the page."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = [
        f"Kubernetes {KUBERNETES} and Muster {version('muster')}, {day}.",
        "",
        f"| scenario | {' | '.join(results)} |",
        f"|---|{'---|' * len(results)}",
        *(f"| `{it.name}` | {' | '.join(of[it.name] for of in results.values())} |"
          for it in load()),
    ]  # fmt: skip
    text = "".join(f"{line}\n" for line in lines)
    PAGE.write_text(replaced(PAGE.read_text("utf-8"), {"results": text}), "utf-8")

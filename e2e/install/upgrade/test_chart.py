"""docs/upgrade.md by Helm, with active users: manifests, the chart, its next version, and back.

The chart is that of the released version, if it has one. The next one is always the checkout's.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from e2e.harness.support.binaries import binary
from e2e.harness.support.manifests import path_of
from e2e.harness.support.rest import Rest
from e2e.install.chart.helm import NAMESPACE, RELEASE, Object, environment, is_hook, render
from e2e.install.docs.reader import Reader
from e2e.install.upgrade.site import Site
from e2e.install.upgrade.versions import (
    MissingCommitError,
    Released,
    Version,
    checked_out,
    prepare,
    released,
)

ADOPT = "From manifests to the chart"
UPGRADE = "From one version of the chart to the next"
ROLLBACK = "Back to the chart's version before"
LEAVE = "From the chart to manifests"
BY_CHART = (ADOPT, UPGRADE, ROLLBACK, LEAVE)
"""The headings of docs/upgrade.md whose commands run here."""

NEXT = "99.0.0"
_OWNER = "meta.helm.sh/release-name"


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("version", released(), ids=lambda version: version.name)
async def test_nobody_notices_the_chart_and_its_upgrades(
    version: Released, server_kind: str, rounds: int, tmp_path: Path
) -> None:
    if server_kind != "real":
        pytest.skip("helm and kubectl work on a real API server: run with --cluster=real")
    binary("helm")
    try:
        old = prepare(version)
    except MissingCommitError as error:
        pytest.skip(str(error))
    head = checked_out()
    first = old if old.chart.is_dir() else head
    async with Site.opened(old, tmp_path) as site, Rest.open(site.kubeconfig) as rest:
        reader = Reader("upgrade.md", site.kubeconfig, tmp_path)
        chart = Chart(reader, site.kubeconfig, tmp_path)
        await site.settle("newcomers")

        chart.take(first)
        await timed("manifests to the chart", site.transition(first, chart.follows(ADOPT)))
        await is_the_releases(rest, tmp_path, first)
        begun = chart.version
        assert chart.deployed() == (1, begun)
        chart.take(head)
        chart.renumber(NEXT)
        for number in range(rounds):
            await timed("the next version", site.transition(head, chart.follows(UPGRADE)))
            assert chart.deployed() == (2 * number + 2, NEXT)
            await is_the_releases(rest, tmp_path, head)
            await timed("and back", site.transition(first, chart.follows(ROLLBACK)))
            assert chart.deployed() == (2 * number + 3, begun)
            await is_the_releases(rest, tmp_path, first)
        await timed("up again", site.transition(head, chart.follows(UPGRADE)))
        await timed("the chart to manifests", site.transition(head, chart.follows(LEAVE)))
        assert chart.deployed() is None
        await timed(f"back to {old.name}", site.transition(old))

        await site.leave()
        assert site.crossed, "no gang was begun by one leader and finished by another"
        traffic = site.traffic
        print(f"{traffic.made} requests, none refused, {traffic.deferred} told to come again")


async def timed(what: str, transition: Awaitable[None]) -> None:
    started = time.monotonic()
    await transition
    print(f"{what}: in {time.monotonic() - started:.1f} s")


class Chart:
    """The chart in the reader's checkout, and its installed release.

    `take` gives the reader the chart and the manifests of a version.
    """

    def __init__(self, reader: Reader, kubeconfig: Path, home: Path) -> None:
        self._reader = reader
        self._checkout = reader.checkout
        self._access = f"--kubeconfig={kubeconfig}"
        self._home = home
        self._file = reader.checkout / "charts" / "muster" / "Chart.yaml"

    @property
    def version(self) -> str:
        return str(yaml.safe_load(self._file.read_text())["version"])

    def take(self, version: Version) -> None:
        """Check out a version."""
        for name in ("charts", "manifests"):
            shutil.rmtree(self._checkout / name)
            shutil.copytree(version.source / name, self._checkout / name)

    def renumber(self, version: str) -> None:
        """Set the version of the chart and of Muster, which is also the image's tag."""
        content = yaml.safe_load(self._file.read_text())
        content |= {"version": version, "appVersion": version}
        self._file.write_text(yaml.safe_dump(content))

    def follows(self, heading: str) -> Callable[[], Awaitable[None]]:
        """Return a function that runs the page's commands below the heading."""
        return lambda: self._reader.follow(heading)

    def deployed(self) -> tuple[int, str] | None:
        """Return revision and chart version of the release; None without a release."""
        command = [
            str(binary("helm")),
            "list",
            f"--namespace={NAMESPACE}",
            "--output=json",
            self._access,
        ]
        done = subprocess.run(command, env=environment(self._home), capture_output=True, check=True)
        for one in json.loads(done.stdout):
            if one["name"] == RELEASE:
                assert one["status"] == "deployed", one
                return int(one["revision"]), one["chart"].removeprefix(f"{RELEASE}-")
        return None


async def is_the_releases(rest: Rest, home: Path, version: Version) -> None:
    """Check that each object of the chart is Helm's now, without fields of the previous version."""
    for name, wanted in render(home, chart=version.chart).items():
        if is_hook(wanted):
            continue
        found = (await rest.get(f"{path_of(wanted)}/{wanted['metadata']['name']}")).ok()
        assert found["metadata"]["annotations"][_OWNER] == RELEASE, name
        assert _parts(found) == _parts(wanted), name


def _parts(obj: Object) -> list[str]:
    """Return names of list entries merged by name, which an upgrade could leave, and all rules."""
    found = [json.dumps(one, sort_keys=True) for one in obj.get("rules") or []]
    found += [one["name"] for one in obj.get("webhooks") or []]
    if obj["kind"] == "Deployment":
        pod = obj["spec"]["template"]["spec"]
        found += [one["name"] for one in [*pod["containers"], *pod["volumes"]]]
        found += pod["containers"][0]["args"]
    if obj["kind"] == "Service":
        found += [str(one["port"]) for one in obj["spec"]["ports"]]
    return sorted(found)

"""Downgrades and upgrades between each released version and this checkout, with active users."""

import time
from pathlib import Path

import pytest

from e2e.install.upgrade.site import Site
from e2e.install.upgrade.versions import (
    MissingCommitError,
    Released,
    checked_out,
    prepare,
    released,
)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("version", released(), ids=lambda version: version.name)
async def test_nobody_notices_upgrades_and_ways_back(
    version: Released, server_kind: str, rounds: int, tmp_path: Path
) -> None:
    if server_kind != "real":
        pytest.skip("kubectl applies the manifests to a real API server: run with --cluster=real")
    try:
        old = prepare(version)
    except MissingCommitError as error:
        pytest.skip(str(error))
    new = checked_out()
    async with Site.opened(old, tmp_path) as site:
        for number, target in enumerate([new, *[old, new] * rounds]):
            started = time.monotonic()
            await site.transition(target)
            print(f"{number}: to {target.name} in {time.monotonic() - started:.1f} s")
            if number == 0:
                await site.settle("newcomers")
        await site.leave()
        assert site.crossed, "no gang was begun under one version and finished under another"
        print(f"{site.crossed} half-bound gangs were finished by the other version")
        traffic = site.traffic
        print(f"{traffic.made} requests, none refused, {traffic.deferred} told to come again")

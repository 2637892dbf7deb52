"""scheduler-plugins with its coscheduling plugin: the CRDs of its module, and its configuration."""

from pathlib import Path

from e2e.harness.support import definitions
from e2e.harness.support.rest import Rest

MODULE = "sigs.k8s.io/scheduler-plugins"
SCHEDULER = "scheduler-plugins-scheduler"
"""The schedulerName in the chart of scheduler-plugins."""


async def apply_crds(rest: Rest, module: Path) -> None:
    """Apply the CRDs of PodGroup and ElasticQuota, and wait until they are served.

    The controller watches both kinds.
    """
    await definitions.apply_files(rest, *sorted((module / "config/crd/bases").glob("*.yaml")))


def profile() -> dict[str, object]:
    """Return the profile of `manifests/coscheduling`, with the scheduler's name of the chart."""
    only = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    return {
        "schedulerName": SCHEDULER,
        "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}, "queueSort": only},
        "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}],
    }

"""Features that Muster uses and older versions of Kubernetes lack, by their default gates.

A table in docs/versions.md lists the same, and e2e/install/test_versions.py checks it against API
servers of several versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cli.doctor.findings import About, Check, Finding

OLDEST: Final = (1, 30)
"""The oldest Kubernetes that is supported."""

Version = tuple[int, int]
"""Major and minor."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that Kubernetes has `since` a version, and the difference for users without it."""

    name: str
    since: Version
    without: str


FEATURES: Final = (
    Feature(
        "matchLabelKeys in the affinity of pods",
        (1, 31),
        "if autoscalers follow its topology, a gang that is recreated under its name also counts "
        "remaining pods of the earlier one",
    ),
    Feature(
        "managedBy in Jobs",
        (1, 32),
        "the API server drops the field, and the Job runs in this cluster",
    ),
    Feature(
        "in-place resize of pods",
        (1, 33),
        "the requests of a pod cannot change",
    ),
    Feature(
        "pod-level resources (spec.resources)",
        (1, 34),
        "the API server drops the field, and only the requests of the containers count",
    ),
    Feature(
        "resource claims (resource.k8s.io/v1)",
        (1, 34),
        "pods with spec.resourceClaims are rejected, and no claims of groups are created",
    ),
    Feature(
        "devices for extended resources",
        (1, 36),
        "only nodes that offer an extended resource take pods that request it",
    ),
)


def missing_features(version: Version) -> Iterator[Finding]:
    """Yield a finding for each feature that a Kubernetes of this version lacks."""
    check = Check("versions", About("Cluster", "version"))
    for feature in FEATURES:
        if version < feature.since:
            since = ".".join(map(str, feature.since))
            yield check.info(f"no {feature.name} before Kubernetes {since}: {feature.without}")

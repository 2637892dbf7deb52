"""The configuration file: one for all processes, each reads its part. All fields are optional.

This module imports no process: commands read the file too, and must start quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from api import features
from api.constants import SCHEDULER_NAME
from api.features import Feature, FeatureGates
from api.integration.common.autoscalers import KNOWN_KEYS, Autoscalers
from api.integration.common.native import GroupsApi
from api.names import is_label_key
from api.rules.table import LABEL_KEY_TEXT
from api.scheduler_names import SchedulerNames, faults_of
from kube.base.settings import LeaderElection, Seconds, Section, read
from scheduler.core.values.profiles import PodProfile, Profile, Scoring
from scheduler.support.config import Config as Scheduler

Days = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Certificates(Section, frozen=True):
    """The source of the webhook's certificates, and their lifetimes.

    With `mounted`, a folder that cert-manager fills, Muster creates no certificates. Otherwise
    Muster announces a next CA `announcedSeconds` before it uses it.
    """

    mounted: str | None = None
    ca_days: Days = 3650.0
    server_days: Days = 365.0
    ahead_days: Days = 90.0
    announced_seconds: Seconds = 60.0

    def __post_init__(self) -> None:
        """Raise ValueError, which names the fields, if renewal would have no effect."""
        if not self.ca_days >= self.server_days > self.ahead_days:
            raise ValueError(
                "caDays must be at least serverDays, and serverDays more than aheadDays"
            )


class AutoscalerSettings(Section, frozen=True):
    """Hints about the group that the pods of Jobs and JobSets carry for autoscalers.

    `podAffinity` names the domain in which to buy nodes. It is set where the group requires a
    topology whose key is well known (zone, region) or one of `topologyKeys`. `doNotDisrupt` asks
    autoscalers not to move the pods of groups with disruption mode All.
    """

    pod_affinity: bool = True
    topology_keys: tuple[str, ...] = ()
    do_not_disrupt: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError, which names the field, for a key that no label can have."""
        for key in self.topology_keys:
            if not is_label_key(key):
                raise ValueError(f"topologyKeys: {key!r} {LABEL_KEY_TEXT}")

    @property
    def value(self) -> Autoscalers:
        """The same settings as a value for the webhook."""
        keys = KNOWN_KEYS.union(self.topology_keys) if self.pod_affinity else frozenset[str]()
        return Autoscalers(keys, self.do_not_disrupt)


class Webhook(Section, frozen=True):
    """The webhook's address, its Service, and the storage of its certificates.

    Without `host` and `port` it listens on all addresses at 9443, or at the host and port of its
    URL. Certificates are in the Secret `secret`, or in the folder `certDir` if that is set.
    `drainSeconds` is the time after SIGTERM in which the webhook still accepts reviews: 10 behind a
    Service, whose endpoints change late, and 0 by URL. `autoscalers` are the hints for autoscalers.
    """

    host: str | None = None
    port: Port | None = None
    service: str = "muster-webhook"
    secret: str = "muster-webhook-certificates"  # noqa: S105 - a name, nothing secret
    cert_dir: str | None = None
    certificates: Certificates = Certificates()
    drain_seconds: Annotated[float, Meta(ge=0)] | None = None
    autoscalers: AutoscalerSettings = AutoscalerSettings()


class Groups(Section, frozen=True):
    """The API in which new Jobs, JobSets and other owners get groups.

    `muster`: Muster's own. `native`: Kubernetes' own, and an owner that cannot have them waits.
    `auto`: Kubernetes' own where they are served and can state all that the owner asks for, else
    Muster's. An owner keeps the groups that it has.
    """

    api: GroupsApi = GroupsApi.MUSTER


class SchedulerProfile(Section, frozen=True):
    """Scoring of the pods of one schedulerName: `pack` fills nodes, `spread` evens them out.

    `scoring` is for pods of groups, `podScoring` for others; `default` scores nodes by
    kube-scheduler's default plugins.
    """

    scheduler_name: str = SCHEDULER_NAME
    scoring: Profile = "pack"
    pod_scoring: PodProfile = "default"


class File(Section, frozen=True):
    """The configuration file. `namespace` has the leases, certificate Secret and webhook Service.

    `profiles` are the schedulerNames of Muster. Pods that name a group and no scheduler get the
    first. `featureGates` are the gates that differ from their default.
    """

    namespace: str = "muster-system"
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    groups: Groups = Groups()
    leader_election: LeaderElection = LeaderElection()
    webhook: Webhook = Webhook()
    scheduler: Scheduler = Scheduler()

    def __post_init__(self) -> None:
        """Raise ValueError, which names the field."""
        found = faults_of([profile.scheduler_name for profile in self.profiles])
        if found:
            raise ValueError(f"profiles: {'; '.join(found)}")
        found = features.faults_of(self.feature_gates)
        if found:
            raise ValueError(f"featureGates: {'; '.join(found)}")
        if self.groups.api is not GroupsApi.MUSTER and Feature.NATIVE_GROUPS not in self.gates:
            raise ValueError(f"groups.api: {self.groups.api} needs the feature gate NativeGroups")
        # A field of an earlier version, still accepted alone. Together with `profiles` it is
        # ambiguous.
        if self.scheduler.profile is not None and self.profiles != (SchedulerProfile(),):
            raise ValueError(
                "scheduler.profile: Forbidden: profiles[].scoring has replaced it: remove the field"
            )

    @property
    def scheduler_names(self) -> SchedulerNames:
        """Names of Muster's schedulers."""
        return SchedulerNames(tuple(profile.scheduler_name for profile in self.profiles))

    @property
    def gates(self) -> FeatureGates:
        """The feature gates, with defaults for those that the file does not set."""
        return FeatureGates.of(self.feature_gates)

    @property
    def scoring(self) -> Mapping[str, Scoring]:
        """Scoring of the pods of each schedulerName."""
        if self.scheduler.profile is not None:
            # In 0.1.0 it applied to all pods.
            return {SCHEDULER_NAME: Scoring(self.scheduler.profile, self.scheduler.profile)}
        return {
            profile.scheduler_name: Scoring(profile.scoring, profile.pod_scoring)
            for profile in self.profiles
        }

    @property
    def old_fields(self) -> Mapping[str, str]:
        """Fields of an earlier version that are set, with their current names."""
        old = {"scheduler.profile": "profiles[].scoring"}
        return old if self.scheduler.profile is not None else {}


def load(path: str | Path | None) -> File:
    """Read the file; None gives the defaults. Raises ConfigError."""
    return read(path, File)

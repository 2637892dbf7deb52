"""The configuration file: one for all processes, each reads its part. All fields are optional.

Nothing here imports a process: commands read the file too, and start quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from api import features
from api.constants import SCHEDULER_NAME
from api.features import FeatureGates
from api.integration.common.autoscalers import KNOWN_KEYS, Autoscalers
from api.names import is_label_key
from api.rules.table import LABEL_KEY_TEXT
from api.scheduler_names import SchedulerNames, faults_of
from kube.base.settings import LeaderElection, Seconds, Section, read
from scheduler.core.values.profiles import Profile as Scoring
from scheduler.support.config import Config as Scheduler

Days = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Certificates(Section, frozen=True):
    """Who makes the webhook's certificates, and how long they last.

    With `mounted`, a folder that cert-manager fills, nothing is made here. Otherwise a next CA
    is announced `announcedSeconds` before it is used.
    """

    mounted: str | None = None
    ca_days: Days = 3650
    server_days: Days = 365
    ahead_days: Days = 90
    announced_seconds: Seconds = 60

    def __post_init__(self) -> None:
        """Raises ValueError, which names the fields, when renewing would gain nothing."""
        if not self.ca_days >= self.server_days > self.ahead_days:
            raise ValueError("caDays >= serverDays > aheadDays must hold")


class TellAutoscalers(Section, frozen=True):
    """What the pods of Jobs and JobSets tell autoscalers of their group.

    `podAffinity`: in which domain to buy nodes, where a topology is required whose key is
    well known (zone, region) or one of `topologyKeys`. `doNotDisrupt`: to leave the pods
    of groups with disruption mode All where they are.
    """

    pod_affinity: bool = True
    topology_keys: tuple[str, ...] = ()
    do_not_disrupt: bool = True

    def __post_init__(self) -> None:
        """Raises ValueError, which names the field, for a key that no label has."""
        for key in self.topology_keys:
            if not is_label_key(key):
                raise ValueError(f"topologyKeys: {key!r} {LABEL_KEY_TEXT}")

    @property
    def told(self) -> Autoscalers:
        """The same as the webhook takes it."""
        keys = KNOWN_KEYS.union(self.topology_keys) if self.pod_affinity else frozenset[str]()
        return Autoscalers(keys, self.do_not_disrupt)


class Webhook(Section, frozen=True):
    """Where the webhook listens, its Service, and where its certificates are kept.

    Without `host` and `port` it listens on all addresses at 9443, or where its URL points.
    Certificates are in the Secret `secret`, or in the folder `certDir` if that is given.
    `drainSeconds` is how long reviews are still taken after SIGTERM: 10 behind a Service, which
    learns late that a replica goes, and 0 by URL. `autoscalers` is what they are told.
    """

    host: str | None = None
    port: Port | None = None
    service: str = "muster-webhook"
    secret: str = "muster-webhook-certificates"  # noqa: S105 - a name, nothing secret
    cert_dir: str | None = None
    certificates: Certificates = Certificates()
    drain_seconds: Annotated[float, Meta(ge=0)] | None = None
    autoscalers: TellAutoscalers = TellAutoscalers()


class SchedulerProfile(Section, frozen=True):
    """How pods of one schedulerName are placed: `pack` fills nodes, `spread` evens them out."""

    scheduler_name: str = SCHEDULER_NAME
    scoring: Scoring = "pack"


class File(Section, frozen=True):
    """`namespace` is where leases, the certificate Secret and the webhook's Service live.

    `profiles` are the schedulerNames of Muster; pods that name a group and none get the first.
    `featureGates` are the gates that are not as their default.
    """

    namespace: str = "muster-system"
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    leader_election: LeaderElection = LeaderElection()
    webhook: Webhook = Webhook()
    scheduler: Scheduler = Scheduler()

    def __post_init__(self) -> None:
        """Raises ValueError, which names the field."""
        found = faults_of([profile.scheduler_name for profile in self.profiles])
        if found:
            raise ValueError(f"profiles: {'; '.join(found)}")
        found = features.faults_of(self.feature_gates)
        if found:
            raise ValueError(f"featureGates: {'; '.join(found)}")
        if self.scheduler.profile is not None and self.profiles != (SchedulerProfile(),):
            raise ValueError(
                "scheduler.profile: profiles[].scoring says how pods are placed; take this out"
            )

    @property
    def scheduler_names(self) -> SchedulerNames:
        """Whose pods are Muster's."""
        return SchedulerNames(tuple(profile.scheduler_name for profile in self.profiles))

    @property
    def gates(self) -> FeatureGates:
        """What is on."""
        return FeatureGates.of(self.feature_gates)

    @property
    def scoring(self) -> Mapping[str, Scoring]:
        """How pods of each schedulerName are placed."""
        if self.scheduler.profile is not None:
            return {SCHEDULER_NAME: self.scheduler.profile}
        return {profile.scheduler_name: profile.scoring for profile in self.profiles}

    @property
    def old_fields(self) -> Mapping[str, str]:
        """Fields of an earlier version that are set, and what each is called now."""
        old = {"scheduler.profile": "profiles[].scoring"}
        return old if self.scheduler.profile is not None else {}


def load(path: str | Path | None) -> File:
    """The file; None gives the defaults. Raises ConfigError."""
    return read(path, File)

"""The strategies of the built-in kinds."""

from localcluster.base import resources
from localcluster.base.clock import Clock
from localcluster.base.store import CollectionId, Store
from localcluster.base.strategy import Generational, Strategy
from localcluster.builtin.devices.kinds import (
    DeviceClasses,
    ResourceClaims,
    ResourceClaimTemplates,
    ResourceSlices,
)
from localcluster.builtin.devices.rights import Rights
from localcluster.builtin.jobs import CronJobs, Jobs
from localcluster.builtin.pods.pods import Pods
from localcluster.builtin.rest import (
    ConfigMaps,
    Leases,
    Namespaces,
    Nodes,
    PodDisruptionBudgets,
    PriorityClasses,
    RoleBindings,
    Secrets,
    Services,
    WebhookConfigurations,
    Workloads,
)
from localcluster.rbac.authorizer import Authorizer


def strategies(store: Store, authorizer: Authorizer, clock: Clock) -> dict[CollectionId, Strategy]:
    """Return a strategy for each built-in kind that has rules of its own."""
    rights = Rights(store, authorizer)
    events = Strategy()
    events.create_on_update = True
    crds = Generational()
    crds.unconditional_update = False
    return {
        resources.PODS.collection: Pods(),
        resources.JOBS.collection: Jobs(),
        resources.CRON_JOBS.collection: CronJobs(),
        resources.NODES.collection: Nodes(),
        resources.NAMESPACES.collection: Namespaces(),
        resources.PRIORITY_CLASSES.collection: PriorityClasses(),
        resources.PDBS.collection: PodDisruptionBudgets(),
        resources.LEASES.collection: Leases(),
        resources.CONFIG_MAPS.collection: ConfigMaps(),
        resources.SECRETS.collection: Secrets(),
        resources.SERVICES.collection: Services(),
        resources.EVENTS.collection: events,
        resources.CRDS.collection: crds,
        resources.MUTATING_WEBHOOKS.collection: WebhookConfigurations(),
        resources.VALIDATING_WEBHOOKS.collection: WebhookConfigurations(),
        resources.ROLE_BINDINGS.collection: RoleBindings(),
        resources.CLUSTER_ROLE_BINDINGS.collection: RoleBindings(),
        resources.DEPLOYMENTS.collection: Workloads(),
        resources.REPLICA_SETS.collection: Workloads(),
        resources.STATEFUL_SETS.collection: Workloads(),
        resources.DAEMON_SETS.collection: Generational(),
        resources.REPLICATION_CONTROLLERS.collection: Workloads(),
        resources.RESOURCE_CLAIMS.collection: ResourceClaims(rights),
        resources.RESOURCE_CLAIM_TEMPLATES.collection: ResourceClaimTemplates(rights),
        resources.DEVICE_CLASSES.collection: DeviceClasses(),
        resources.RESOURCE_SLICES.collection: ResourceSlices(clock),
    }

"""Typed clients for the groups of Muster: `Client`, and `muster_client.aio.Client`."""

from muster_client.base import ObjectMeta, OwnerReference
from muster_client.client import Client
from muster_client.groups import Event, GroupDeletedError, Outcome
from muster_client.models import CompositePodGroup, PodGroup, Workload

__all__ = [
    "Client",
    "CompositePodGroup",
    "Event",
    "GroupDeletedError",
    "ObjectMeta",
    "Outcome",
    "OwnerReference",
    "PodGroup",
    "Workload",
]

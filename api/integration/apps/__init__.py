"""Deployments and StatefulSets: what admission writes on them, and the group that they get."""

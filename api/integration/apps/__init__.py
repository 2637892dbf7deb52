"""Deployments and StatefulSets (`kinds`)."""

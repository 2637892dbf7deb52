"""Kubernetes itself, as the reference for the embedded cluster and the filters."""

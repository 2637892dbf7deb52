"""Kubernetes itself: what the embedded cluster and the filters are compared with."""

"""Kubernetes events about groups."""

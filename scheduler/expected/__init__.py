"""Pods that do not exist yet, as values."""

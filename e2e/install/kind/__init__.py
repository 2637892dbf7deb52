"""Muster on a kind cluster: `make kind`."""

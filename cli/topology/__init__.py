"""Topology that other schedulers' objects describe, as labels of nodes."""

"""Kueue, which decides by quota when a workload may start."""

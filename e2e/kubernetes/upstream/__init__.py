"""Kubernetes' own tests for scheduling, run on its scheduler and on Muster."""

"""Kubernetes events, counted and limited."""

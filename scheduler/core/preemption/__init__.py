"""Whom to evict so that a root fits."""

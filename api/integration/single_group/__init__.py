"""Kinds whose pods are all in one PodGroup: what they have in common (`kind`)."""

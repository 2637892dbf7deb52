"""The common part of kinds whose pods are all in one PodGroup (`kind`)."""

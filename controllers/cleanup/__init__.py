"""Deletion: generated objects without an owner, and finalizers from the leaves up."""

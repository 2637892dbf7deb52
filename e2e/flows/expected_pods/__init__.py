"""Held places for pods that do not exist yet."""

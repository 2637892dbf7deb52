"""Placement of pods, and the reasons of pending ones."""

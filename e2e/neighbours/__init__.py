"""Muster alongside other projects' real controllers."""

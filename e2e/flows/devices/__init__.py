"""Gangs whose pods need devices."""

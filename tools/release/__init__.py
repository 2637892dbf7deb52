"""Builds a release of one commit: its files, reproducible to the byte."""

"""Build of a release from one commit: its files, reproducible to the byte."""

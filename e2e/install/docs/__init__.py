"""The commands of the documentation, run exactly as written."""

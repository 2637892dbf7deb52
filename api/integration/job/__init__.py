"""Jobs: what admission writes on them, and the groups that they get."""

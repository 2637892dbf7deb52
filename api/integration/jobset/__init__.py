"""JobSets: what admission writes on them, their rules, and the groups that they get."""

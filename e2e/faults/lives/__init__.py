"""Random life cycles of Jobs and JobSets."""

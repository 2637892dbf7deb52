"""Places that are held for expected pods, over time."""

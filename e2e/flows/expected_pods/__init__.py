"""Places that are held for pods that do not exist yet."""

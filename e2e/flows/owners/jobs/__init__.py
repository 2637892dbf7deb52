"""What Jobs and JobSets get, and keep, whatever happens to them."""

"""Controllers: Jobs and JobSets get their groups, and trees of groups unwind from the leaves."""

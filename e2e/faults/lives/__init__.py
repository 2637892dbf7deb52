"""Lives of Jobs and JobSets, drawn at random and played."""

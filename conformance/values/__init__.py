"""Values: a scenario as its file states it, and the history of one run of it."""

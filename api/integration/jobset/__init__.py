"""JobSets: their admission, their rules, and their groups."""

"""Jobs: their admission, and their groups."""

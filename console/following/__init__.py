"""What changes from one look to the next, and what was before."""

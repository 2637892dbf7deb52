"""What admission says through a whole API server, in every version."""

"""What makes a release of one commit: its files, the same bytes each time they are made."""

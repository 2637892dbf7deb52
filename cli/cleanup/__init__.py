"""`muster gc`: search for objects that no controller will delete."""

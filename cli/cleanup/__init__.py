"""`muster gc`: search for objects that no controller deletes any more."""

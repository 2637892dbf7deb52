"""`muster gc`: objects that nobody deletes any more."""

"""What happens to the scheduler that leads, at any step of its work, and what must hold then."""

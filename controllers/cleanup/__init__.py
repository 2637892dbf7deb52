"""What goes: objects without an owner, and finalizers from the leaves up."""

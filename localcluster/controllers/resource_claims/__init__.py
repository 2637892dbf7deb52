"""Resource claims: made from templates for pods, reserved for them, and given back."""

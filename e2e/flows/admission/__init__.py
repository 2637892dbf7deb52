"""What the webhook completes, rejects and leaves alone."""

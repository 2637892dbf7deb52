"""What the real Job and JobSet controllers do, recorded; the embedded ones must do the same."""

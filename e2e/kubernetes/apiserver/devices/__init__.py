"""What a server accepts, stores and refuses of the kinds that Dynamic Resource Allocation uses."""

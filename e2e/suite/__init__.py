"""The flows that users care about, on any cluster with Muster's processes beside it."""

"""What users do with Muster, by what they use."""

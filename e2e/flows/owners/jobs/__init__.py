"""The generated objects of Jobs and JobSets through their whole life cycle."""

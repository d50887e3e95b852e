"""Planted changes of the engine: what they are, and how they are built and run."""

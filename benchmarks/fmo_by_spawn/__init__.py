"""The example openfmo_like as OpenFMO does it without us: spawned processes, and messages.

Physics, plan, places and dump are the example's own modules; only what travels is different.
"""

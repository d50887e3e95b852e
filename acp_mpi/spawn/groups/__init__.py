"""Groups that join a job while it runs: their start, and their numbers.

What may enter: the registry, which gives newcomers their slots; starting their programs; nothing
that works without newcomers.
"""

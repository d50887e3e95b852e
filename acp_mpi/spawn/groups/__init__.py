"""Groups that join a job while it runs: who starts them, and who numbers them.

What may enter: the registry, which gives newcomers their slots; starting their programs; nothing
that works without newcomers.
"""

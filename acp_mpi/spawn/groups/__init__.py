"""Groups that join a job while it runs: their start, and their numbers.

Members of the room: the registry, which gives newcomers their slots; starting their programs;
nothing that works without newcomers.
"""

"""Global memory for users: registration, arrays, remote arrays, bulk atomics, names.

Members of this package work on global addresses and NumPy arrays and know no container or message.
"""

"""Global memory for users: registration, arrays, remote arrays, bulk atomics, names.

What enters here works on global addresses and NumPy arrays and knows no container or message.
"""

"""Where the groups of a job find each other: the server, and the member's side.

Knows rows as bytes and nothing of how processes are started; the standard library only.
"""

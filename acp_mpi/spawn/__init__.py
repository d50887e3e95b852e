"""Joining processes to one job: secret, handshake, rendezvous, launcher and Spawn replacement.

Stands on the other rooms and is imported by none below it but `runtime`, which joins at `init`.
"""

"""Joining processes to one job: `rendezvous`, where they meet, and `macprun`, which starts them.

Stands on the other rooms and is imported by none below it but `runtime`, which joins at `init`.
"""

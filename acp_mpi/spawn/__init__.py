"""Joining processes to one job: `rendezvous`, where they meet, and `macprun`, which starts them.

`init` joins by the first. The rooms of memory and containers know neither.
"""

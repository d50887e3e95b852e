"""Collectives: schedules on paper, the choice among them, and the calls that carry them out.

A new algorithm is a function that returns rounds (schedule.py); `choice.py` says when it is taken.
"""

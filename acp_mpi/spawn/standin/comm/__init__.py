"""Communicators of several groups: their beginning and their members."""

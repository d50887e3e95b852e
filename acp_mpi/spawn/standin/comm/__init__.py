"""Communicators of several groups, how they come to be, and who is in them."""

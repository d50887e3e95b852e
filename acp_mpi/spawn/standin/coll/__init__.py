"""Collectives of communicators of several groups."""

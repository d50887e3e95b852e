"""Delegates: a process of a node, or a thread, that executes commands of its ranks beside them."""

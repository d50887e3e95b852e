"""Messages and requests of communicators of several groups."""

"""The life of a job: how processes join it, its members, and its end."""

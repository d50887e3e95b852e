"""The member's side of the registry of a job that grows: where it is, and what it is asked."""

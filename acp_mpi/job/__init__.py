"""How processes become a job, who is in it, and how it ends."""

"""Make a Python that was built against an old C library; `older.py` has it imported first."""

import os

for _name in ("memfd_create", "pidfd_open"):
    if hasattr(os, _name):
        delattr(os, _name)

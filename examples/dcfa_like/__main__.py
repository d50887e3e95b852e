"""`python -m dcfa_like`, on each rank of a job."""

import sys

from .program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The program of figure 9 of the DCFA paper: devices compute, and a delegate does the rest."""

"""Measure what passes between hosts against bare TCP and MPI, each with its goal.

    python benchmarks/across_nodes.py [--quick] [--only latency --only idle] [--json FILE]

Start it as root, without mpiexec: the hosts are network namespaces of this machine on a switch,
made for each job and gone with it, so no network card is in the figures; the chain's network is a
delay. Both sides of a row run in the same job in alternating slices. A slow figure is no error; a
job that fails is.
"""

import sys

import spanning
from jobs import Job, Wire
from program import main

CRC = {"ACP_LINKS": "crc"}  # else frames between hosts carry a code of the members ("mac")
WINDOW = {"ACP_PATH": "window"}
OFI = WINDOW | {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}  # a transport of MPICH


NEAR = Wire(delay=50e-6, rate=1.25e9, buffers=4 << 20)  # a cluster's Ethernet

# In the order of the table.
JOBS = [
    Job("latency", "one 8-byte operation at a time", 0, "rows.link_latency", hosts=2),
    Job("latency-crc", "the same without codes", 0, "rows.link_latency", CRC, hosts=2),
    Job("rate", "many 8-byte operations under way", 0, "rows.link_rate", hosts=2),
    Job("chain", "dependent additions over a network", 0, "rows.link_chain", hosts=2, wire=NEAR),
    Job("third-party", "copies between two other hosts", 0, "rows.link_third_party", hosts=3),
    Job("third-party-crc", "the same without codes", 0, "rows.link_third_party", CRC, hosts=3),
    Job("beside", "an atomic beside a long copy", 0, "rows.link_beside", hosts=2),
    Job("peers", "operations beside those of UCX", 0, "rows.link_peers", hosts=2),
    Job("peers-crc", "the same without codes", 0, "rows.link_peers", CRC, hosts=2),
    Job("idle", "processor time of a job that does nothing", 0, "rows.idle", hosts=4),
    Job("window", "puts through the MPI window", 2, "rows.window", WINDOW, hosts=2),
]
if spanning.mpi_name() == "mpich":
    JOBS.append(Job("window-ofi", "the same over ofi;tcp", 2, "rows.window", OFI, hosts=2))


if __name__ == "__main__":
    if reason := spanning.why_not():
        sys.exit(f"across_nodes.py cannot make hosts: {reason}")
    sys.exit(main(__doc__, JOBS))

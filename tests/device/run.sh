#!/usr/bin/env bash
# Asks a machine with a GPU all that the stand-in cannot tell, within ten minutes, and writes it to a file, too:
#
#     bash tests/device/run.sh          # device-report.txt in $OUT, or in the current folder
#
# It needs gcc, Python and the driver, and builds in a folder of its own. What is missing is left out, with the reason.
# Without a driver the stand-in takes its place: that tests this script.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
report=${OUT:-$PWD}/device-report.txt
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
python=$(command -v python3 || echo missing)
flags=(-std=c11 -D_GNU_SOURCE -O2 -Wall -I "$top/acp_mpi/engine" -iquote "$top/tests")

section() { printf '\n==== %s (%s s)\n' "$1" "$SECONDS"; }

machine() {
    section machine
    date -u; uname -srm
    grep -m1 'model name' /proc/cpuinfo; nproc; grep MemTotal /proc/meminfo
    gcc --version | head -n 1; "$python" --version
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,mig.mode.current --format=csv
        nvidia-smi topo -m 2>/dev/null
    else
        echo "nvidia-smi: not there"
    fi
    cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null | sed 's/^/ptrace_scope /'
    dmesg 2>/dev/null | grep -m1 -i gvisor
}

declarations() {
    section "declarations against the driver's header"
    local header folder
    folder=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    header=$(ls /usr/local/cuda*/include/cuda.h /usr/include/cuda.h "$folder"/nvidia/*/include/cuda.h 2>/dev/null |
        head -n 1)
    if [ -z "$header" ]; then echo "left out: no cuda.h is here"; return; fi
    folder=$(dirname "$header")
    gcc -fsyntax-only "${flags[@]}" -I "$folder" "$top/tests/device/check_declarations.c" && echo "$header: the same"
}

driver_is_there() { "$python" -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null; }

standin() {
    section "no driver: the stand-in takes its place"
    gcc "${flags[@]}" -fPIC -shared -Wl,-soname,libcuda.so.1 "$top"/tests/device/{standin,streams,memory,sharing}.c \
        -o "$build/libcuda.so.1" -pthread
    export LD_LIBRARY_PATH=$build FAKE_DELAY=20
}

probe() {
    section "the driver without the library"
    gcc "${flags[@]}" "$top"/tests/device/probe*.c -o "$build/probe" -ldl -pthread && timeout 240 "$build/probe"
}

kind() {
    section "the CUDA kind"
    gcc "${flags[@]}" "$top"/tests/device/check_kind.c "$top"/acp_mpi/engine/devices/cuda*.c -o "$build/kind" -ldl \
        -pthread && timeout 130 "$build/kind"
    echo "ends with $?"
}

arrays() {
    section "packages with device arrays"
    timeout 400 "$python" "$top/tests/device/arrays.py"
}

measure() {
    section "benchmarks"
    if "$python" -c "import acp_mpi, cupy, mpi4py"; then
        timeout 240 "$python" "$top/benchmarks/devices.py" --quick
    else
        echo "not measured: acp_mpi, CuPy and mpi4py are needed"
    fi
}

all() {
    machine
    declarations
    driver_is_there || standin
    probe
    kind
    arrays
    measure
    section end
}

all 2>&1 | tee "$report"
echo "$report"

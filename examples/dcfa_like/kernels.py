"""The kernels, in the words that OpenCL and CUDA share; NumPy does the same in the same order."""

OPENCL = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#define KERNEL kernel void
#define GLOBAL global
#define X get_global_id(0)
#define Y get_global_id(1)
"""
CUDA = """
#define KERNEL extern "C" __global__ void
#define GLOBAL
#define X (blockIdx.x * blockDim.x + threadIdx.x)
#define Y (blockIdx.y * blockDim.y + threadIdx.y)
"""
TEXT = """
KERNEL relax(GLOBAL const double *old, GLOBAL double *next, int columns, int first, double rate)
{
    size_t j = X, at = (first + Y) * columns + j;
    if (j == 0 || j + 1 >= columns)
        return;
    next[at] = old[at] + rate * (old[at - columns] + old[at + columns] + old[at - 1] + old[at + 1]
                                 - 4.0 * old[at]);
}

KERNEL change(GLOBAL const double *old, GLOBAL const double *next, GLOBAL double *most,
              int columns, int rows)
{
    size_t row = X, at = (1 + row) * columns;
    double found = 0.0;
    if (row >= rows)
        return;
    for (int j = 0; j < columns; j++)
        found = fmax(found, fabs(next[at + j] - old[at + j]));
    most[row] = found;
}
"""

/* Finding MPI's functions in a library that is loaded already. */
#include "mpi_window/symbols.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

const char *symbols_find(struct mpi *mpi, const char *user)
{
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {
        {"MPI_Put", offsetof(struct mpi, put)},
        {"MPI_Get", offsetof(struct mpi, get)},
        {"MPI_Win_flush", offsetof(struct mpi, flush)},
        {"MPI_Iprobe", offsetof(struct mpi, iprobe)},
        {"MPI_Finalize", offsetof(struct mpi, finalize)},
    };
    void *handle = dlopen(user, RTLD_LAZY | RTLD_NOLOAD);
    const char *missing = NULL;
    if (!handle)
        return user;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !missing; i++) {
        void *function = dlsym(handle, wanted[i].name);
        /* C has no conversion from an object's address to a function's. */
        memcpy((char *)mpi + wanted[i].offset, &function, sizeof function);
        if (!function)
            missing = wanted[i].name;
    }
    dlclose(handle); /* its user keeps it loaded */
    return missing;
}

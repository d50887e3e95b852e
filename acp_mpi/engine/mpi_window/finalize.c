/* Calls of MPI_Finalize are led here: every loaded object that calls it has a word, filled by the dynamic linker, from
 * which it takes the function's address.
 *
 * A call of MPI that another thread has begun must have ended before. An attribute of MPI_COMM_SELF is deleted too
 * late: MPICH declares itself free of threads first, and a thread inside then never unlocks what it has locked. */
#include "mpi_window/finalize.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t inside = PTHREAD_MUTEX_INITIALIZER; /* by a thread beside the program's, in a call of MPI */
static bool ended; /* with that held */
static _Atomic bool skipping; /* it must not be called */
static int (*finalize)(void); /* MPI's own */
static pid_t owner; /* of those threads; 0: there are none */

bool finalize_enter(void)
{
    pthread_mutex_lock(&inside);
    if (!ended)
        return true;
    pthread_mutex_unlock(&inside);
    return false;
}

void finalize_leave(void)
{
    pthread_mutex_unlock(&inside);
}

static int finalize_called(void)
{
    if (atomic_load(&skipping))
        return 0; /* MPI_SUCCESS, with every MPI */
    if (owner == getpid()) { /* a forked child has none of the threads, and perhaps their lock */
        pthread_mutex_lock(&inside);
        ended = true;
        pthread_mutex_unlock(&inside);
    }
    return finalize();
}

/* An object's own description for the dynamic linker. */
struct object {
    uintptr_t base;
    const Elf64_Sym *symbols;
    const char *names;
    const Elf64_Rela *tables[2]; /* words for calls; all others */
    size_t sizes[2];
    uintptr_t closed, closed_end; /* written by the dynamic linker only */
};

static const void *object_place(const struct object *o, Elf64_Addr address)
{
    /* glibc has made most of them absolute. */
    return (const void *)(address < o->base ? o->base + address : address);
}

static void look_at(struct object *o, const Elf64_Dyn *entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB: o->symbols = object_place(o, entry->d_un.d_ptr); break;
        case DT_STRTAB: o->names = object_place(o, entry->d_un.d_ptr); break;
        case DT_JMPREL: o->tables[0] = object_place(o, entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: o->sizes[0] = entry->d_un.d_val; break;
        case DT_RELA: o->tables[1] = object_place(o, entry->d_un.d_ptr); break;
        case DT_RELASZ: o->sizes[1] = entry->d_un.d_val; break;
        default: break;
        }
    }
}

static bool word_replace(const struct object *o, uintptr_t *word)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)word & ~(page - 1);
    bool closed = (uintptr_t)word >= o->closed && (uintptr_t)word < o->closed_end;
    if (closed && mprotect((void *)first, page, PROT_READ | PROT_WRITE))
        return false;
    __atomic_store_n(word, (uintptr_t)finalize_called, __ATOMIC_SEQ_CST);
    if (closed)
        mprotect((void *)first, page, PROT_READ); /* a page left writable does no harm */
    return true;
}

static int replace_in(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    bool *good = context;
    struct object o = {.base = info->dlpi_addr};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_GNU_RELRO) {
            o.closed = o.base + part->p_vaddr;
            o.closed_end = o.closed + part->p_memsz;
        } else if (part->p_type == PT_DYNAMIC) {
            look_at(&o, (const void *)(o.base + part->p_vaddr));
        }
    }
    for (int t = 0; t < 2; t++) {
        size_t count = o.tables[t] ? o.sizes[t] / sizeof *o.tables[t] : 0;
        for (size_t i = 0; i < count; i++) {
            const Elf64_Rela *r = &o.tables[t][i];
            const Elf64_Sym *symbol = &o.symbols[ELF64_R_SYM(r->r_info)];
            if (!r->r_addend && !strcmp(o.names + symbol->st_name, "MPI_Finalize"))
                *good &= word_replace(&o, (uintptr_t *)(o.base + r->r_offset));
        }
    }
    return 0;
}

static void end_now(int code, void *instead_of_0)
{
    fflush(NULL);
    _exit(code ? code : (int)(intptr_t)instead_of_0);
}

static bool lead_here(void)
{
    bool good = true;
    dl_iterate_phdr(replace_in, &good);
    return good;
}

bool finalize_wait(int (*function)(void))
{
    if (owner)
        return owner == getpid();
    owner = getpid();
    finalize = function;
    return lead_here();
}

bool finalize_skip(int instead_of_0)
{
    atomic_store(&skipping, true);
    return lead_here() && !on_exit(end_now, (void *)(intptr_t)instead_of_0);
}

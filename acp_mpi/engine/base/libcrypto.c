/* The library is found at run time, and stays: it has handlers for the end of threads and of the process. */
#include "base/libcrypto.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { SET_IV_LENGTH = 0x9, GET_TAG = 0x10, SET_TAG = 0x11 }; /* EVP_CTRL_AEAD_… */

static bool load(struct libcrypto *lib, const char *name)
{
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {
        {"EVP_CIPHER_CTX_new", offsetof(struct libcrypto, context_new)},
        {"EVP_CIPHER_CTX_free", offsetof(struct libcrypto, context_free)},
        {"EVP_aes_256_gcm", offsetof(struct libcrypto, cipher)},
        {"EVP_CipherInit_ex", offsetof(struct libcrypto, begin)},
        {"EVP_CipherUpdate", offsetof(struct libcrypto, update)},
        {"EVP_CipherFinal_ex", offsetof(struct libcrypto, end)},
        {"EVP_CIPHER_CTX_ctrl", offsetof(struct libcrypto, control)},
    };
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool complete = handle != NULL;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && complete; i++) {
        void *function = dlsym(handle, wanted[i].name);
        /* C has no conversion from an object's address to a function's. */
        memcpy((char *)lib + wanted[i].offset, &function, sizeof function);
        complete = function != NULL;
    }
    if (handle && !complete)
        dlclose(handle);
    lib->handle = complete ? handle : NULL;
    return complete;
}

bool libcrypto_open(struct libcrypto *lib)
{
    return lib->handle || load(lib, "libcrypto.so.3") || load(lib, "libcrypto.so.1.1");
}

void libcrypto_close(struct libcrypto *lib)
{
    if (lib->handle)
        dlclose(lib->handle);
    lib->handle = NULL;
}

void *libcrypto_key(const struct libcrypto *lib, const uint8_t key[32], bool encrypts)
{
    void *context = lib->context_new();
    if (context && lib->begin(context, lib->cipher(), NULL, key, NULL, encrypts) == 1 &&
        lib->control(context, SET_IV_LENGTH, 12, NULL) == 1)
        return context;
    libcrypto_forget(lib, context);
    return NULL;
}

void libcrypto_forget(const struct libcrypto *lib, void *context)
{
    if (context)
        lib->context_free(context);
}

bool libcrypto_begin(const struct libcrypto *lib, void *context, uint64_t counter)
{
    unsigned char nonce[12] = {0};
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (unsigned char)(counter >> (56 - 8 * i));
    return lib->begin(context, NULL, NULL, NULL, nonce, -1) == 1;
}

bool libcrypto_go_on(const struct libcrypto *lib, void *context, unsigned char *to, const void *from, size_t size)
{
    int done = 0;
    return !size || (lib->update(context, to, &done, from, (int)size) == 1 && done == (int)size);
}

bool libcrypto_tag(const struct libcrypto *lib, void *context, uint8_t tag[LIBCRYPTO_TAG])
{
    unsigned char none[LIBCRYPTO_TAG];
    int size = 0;
    return lib->end(context, none, &size) == 1 && lib->control(context, GET_TAG, LIBCRYPTO_TAG, tag) == 1;
}

bool libcrypto_check(const struct libcrypto *lib, void *context, const uint8_t tag[LIBCRYPTO_TAG])
{
    unsigned char none[LIBCRYPTO_TAG], expected[LIBCRYPTO_TAG];
    int size = 0;
    memcpy(expected, tag, sizeof expected);
    return lib->control(context, SET_TAG, LIBCRYPTO_TAG, expected) == 1 && lib->end(context, none, &size) == 1;
}

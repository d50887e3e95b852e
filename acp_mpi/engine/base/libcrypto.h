/* AES-256-GCM by OpenSSL's libcrypto, of a version of the system: nothing of it is needed to build. */
#ifndef ACP_LIBCRYPTO_H
#define ACP_LIBCRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Its functions, as OpenSSL 1.1 and 3 declare them. */
struct libcrypto {
    void *handle; /* NULL: not loaded */
    void *(*context_new)(void);
    void (*context_free)(void *context);
    const void *(*cipher)(void);
    int (*begin)(void *context, const void *cipher, void *engine, const unsigned char *key, const unsigned char *iv,
                 int encrypts);
    int (*update)(void *context, unsigned char *out, int *out_size, const unsigned char *in, int size);
    int (*end)(void *context, unsigned char *out, int *out_size);
    int (*control)(void *context, int type, int argument, void *pointer);
};

enum { LIBCRYPTO_TAG = 16 };

/* libcrypto.so.3, or .so.1.1; false: neither is there, or it lacks a function. */
bool libcrypto_open(struct libcrypto *lib);
void libcrypto_close(struct libcrypto *lib);

/* A key for one direction; NULL: no memory, or the library refuses the cipher. */
void *libcrypto_key(const struct libcrypto *lib, const uint8_t key[32], bool encrypts);
void libcrypto_forget(const struct libcrypto *lib, void *context);

/* The nonce of these is 4 zero bytes and the counter, most significant byte first. `to` NULL: `from` is authenticated
 * and not encrypted. */
bool libcrypto_begin(const struct libcrypto *lib, void *context, uint64_t counter);
bool libcrypto_go_on(const struct libcrypto *lib, void *context, unsigned char *to, const void *from, size_t size);
bool libcrypto_tag(const struct libcrypto *lib, void *context, uint8_t tag[LIBCRYPTO_TAG]); /* of what is encrypted */
bool libcrypto_check(const struct libcrypto *lib, void *context, const uint8_t tag[LIBCRYPTO_TAG]);

#endif

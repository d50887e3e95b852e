# Digests: with them nothing of a program's start needs OpenSSL, which takes megabytes.

cdef extern from "base/sha256.h" nogil:
    void acp_sha256(const void *data, size_t n, uint8_t *out)
    void acp_hmac(const void *key, size_t keylen, const void *data, size_t n, uint8_t *out)
    bint acp_equal_ct(const void *a, const void *b, size_t n)


def sha256(bytes data not None) -> bytes:
    """Return the 32 bytes of SHA-256 (FIPS 180-4)."""
    cdef uint8_t out[32]
    acp_sha256(<const char *>data, len(data), out)
    return (<const char *>out)[:32]


def hmac_sha256(bytes key not None, bytes data not None) -> bytes:
    """Return the 32 bytes of HMAC-SHA-256 (RFC 2104)."""
    cdef uint8_t out[32]
    acp_hmac(<const char *>key, len(key), <const char *>data, len(data), out)
    return (<const char *>out)[:32]


def same_digest(bytes a not None, bytes b not None) -> bool:
    """Return whether they are equal, in a time that does not tell where they differ."""
    return len(a) == len(b) and acp_equal_ct(<const char *>a, <const char *>b, len(a))

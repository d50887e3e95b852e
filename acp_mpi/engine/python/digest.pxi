# Digests: with them nothing of a program's start needs OpenSSL, which takes megabytes.

cdef extern from "base/sha256.h" nogil:
    void acp_sha256(const void *data, size_t n, uint8_t *out)


def sha256(bytes data not None) -> bytes:
    """Return the 32 bytes of SHA-256 (FIPS 180-4)."""
    cdef uint8_t out[32]
    acp_sha256(<const char *>data, len(data), out)
    return (<const char *>out)[:32]

# Digests: with them nothing of a program's start needs OpenSSL, which takes megabytes.

cdef extern from "base/sha256.h" nogil:
    void acp_sha256(const void *data, size_t n, uint8_t *out)


def sha256(bytes data not None) -> bytes:
    """Return the 32 bytes of SHA-256 (FIPS 180-4)."""
    cdef uint8_t out[32]
    acp_sha256(<const char *>data, len(data), out)
    return (<const char *>out)[:32]


cdef extern from "base/crc32c.h" nogil:
    uint32_t acp_crc32c(uint32_t crc, const void *data, size_t n)


def crc32c(data: memoryview, uint32_t crc) -> int:
    """Return the CRC-32C of bytes, which follow others whose sum is `crc`; other threads run meanwhile."""
    cdef const uint8_t[::1] view = data
    cdef size_t n = view.shape[0]
    if n:
        with nogil:
            crc = acp_crc32c(crc, &view[0], n)
    return crc

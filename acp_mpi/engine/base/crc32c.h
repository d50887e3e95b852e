/* CRC-32C (Castagnoli), the check sum of every frame on a link. */
#ifndef ACP_CRC32C_H
#define ACP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Extend the check sum `crc` (0 at the start) by n bytes. Calls chain: the
 * result for "ab" is that for "b" starting from the result for "a". */
uint32_t acp_crc32c(uint32_t crc, const void *data, size_t n);

/* The sum by tables alone, for processors without a CRC instruction. Public so that tests can hold it against the fast
 * one. */
uint32_t acp_crc32c_portable(uint32_t crc, const void *data, size_t n);

/* The instruction set with the CRC32 instruction, which clang has by a name of its own and older gcc only in the set. */
#if defined(__clang__)
#define CRC32C_SSE42 "sse4.2,crc32"
#else
#define CRC32C_SSE42 "sse4.2"
#endif

#endif

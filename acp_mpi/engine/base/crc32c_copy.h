#ifndef ACP_CRC32C_COPY_H
#define ACP_CRC32C_COPY_H

#include <stddef.h>
#include <stdint.h>

/* Copies n bytes, which do not overlap, and extends `crc` by them, in one pass. */
uint32_t acp_crc32c_copy(uint32_t crc, void *to, const void *from, size_t n);

/* The same past the caches: for bytes that are read later, if at all. */
uint32_t acp_crc32c_stream(uint32_t crc, void *to, const void *from, size_t n);

/* Extends *crc by the first bytes of long data, by carry-less products where the processor has long
 * ones; how many. Four times as fast as the instruction, if they come from memory. */
size_t acp_crc32c_fold(uint32_t *crc, const void *data, size_t n);

#endif

/* CRC-32C (Castagnoli), the check sum of every frame on a link. */
#ifndef ACP_CRC32C_H
#define ACP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Extend the check sum `crc` (0 at the start) by n bytes. Calls chain: the
 * result for "ab" is that for "b" starting from the result for "a". */
uint32_t acp_crc32c(uint32_t crc, const void *data, size_t n);

/* Copies n bytes, which do not overlap, and extends `crc` by them, in one pass. */
uint32_t acp_crc32c_copy(uint32_t crc, void *to, const void *from, size_t n);

/* Extends *crc by the first bytes of long data, by carry-less products where the processor has long
 * ones; how many. Four times as fast as the instruction, if they come from memory. */
size_t acp_crc32c_fold(uint32_t *crc, const void *data, size_t n);

/* The sum by tables alone: what processors without a CRC instruction run.
 * Public so that tests can hold it against the fast one. */
uint32_t acp_crc32c_portable(uint32_t crc, const void *data, size_t n);

#endif

/* Rows of newcomers on a link: a peer gets the rows of all that have joined since it did before any frame that may
 * name them. */
#include "transport/introduce.h"
#include "peers/newcomers.h"
#include "peers/rank_table.h"
#include "transport/frame.h"
#include "transport/seal.h"

#include <string.h>

static_assert(ROWS_PIECE * ACP_ROW_SIZE <= FRAME_PAYLOAD_MOST, "a piece is a frame");
static_assert(FRAME_HEAD + ROWS_PIECE * ACP_ROW_SIZE + FRAME_TAG <= INTRODUCTION_MOST, "and goes out whole");

struct message introduce_piece(const acp_engine *e, uint8_t kind, uint32_t first, uint32_t end,
                               unsigned char *payload)
{
    uint32_t n = end - first < ROWS_PIECE ? end - first : ROWS_PIECE;
    for (uint32_t i = 0; i < n; i++) {
        struct row row = rank_table_row(e, first + i);
        memcpy(payload + (size_t)i * ACP_ROW_SIZE, &row, sizeof row);
    }
    return (struct message){.kind = kind, .a = first, .b = n};
}

/* The first frames of a newcomer's connection introduce it: a peer that does not have its row could not let it in. */
size_t introduce_compose(const acp_engine *e, struct seal *seal, uint32_t *told, unsigned char *frame)
{
    unsigned char rows[ROWS_PIECE * ACP_ROW_SIZE];
    struct message m = introduce_piece(e, ACP_NEWCOMER, *told, e->self + 1, rows);
    *told += (uint32_t)m.b;
    return seal_write(seal, frame, &m, 0, rows, (uint32_t)m.b * ACP_ROW_SIZE);
}

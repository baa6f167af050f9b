/* Feeds answers in pieces to framing.h, for test_framing.py, which says what goes in and comes out. */
#include "framing.h"

static bool read_exactly(void *to, size_t n) { return fread(to, 1, n, stdin) == n; }

int main(void) {
    for (uint32_t pieces; read_exactly(&pieces, sizeof pieces);) {
        struct framing f = {0};
        struct bytes body = {0};
        framing_reset(&f);
        uint32_t taken = 0;
        for (uint32_t k = 0, n; k < pieces; k++) {
            if (!read_exactly(&n, sizeof n)) return 1;
            char *piece = malloc(n ? n : 1); /* of its very size, so that a byte too many is seen */
            if (!read_exactly(piece, n)) return 1;
            taken += (uint32_t)framing_feed(&f, piece, n, &body);
            free(piece);
        }
        int32_t told[] = {(int32_t)f.place, f.status, f.keep_alive, f.has_length, (int32_t)taken, (int32_t)body.n};
        fwrite(told, sizeof told, 1, stdout);
        if (body.n) fwrite(body.data, 1, body.n, stdout);
        fflush(stdout);
        bytes_clear(&body, 0);
        free(f.line.data);
    }
    return 0;
}

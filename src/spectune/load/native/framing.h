/* HTTP/1.1 answers from bytes that may be cut anywhere: their framing is taken off, and their body appended to a buffer
 * (RFC 9112, sections 4, 6 and 7). Strict where a wrong guess would lose or invent bytes of the body. */
#ifndef SPECTUNE_FRAMING_H
#define SPECTUNE_FRAMING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct bytes {
    char *data;
    size_t n, cap;
};

/* Room for n more bytes. Without memory there is nothing left to measure, so the process ends. */
static void bytes_reserve(struct bytes *b, size_t n) {
    if (b->n + n <= b->cap) return;
    b->cap = 2 * b->cap + n + 256;
    b->data = realloc(b->data, b->cap);
    if (!b->data) {
        fputs("spectune: out of memory\n", stderr);
        abort();
    }
}

static void bytes_append(struct bytes *b, const char *data, size_t n) {
    if (!n) return;
    bytes_reserve(b, n);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

/* Empties a buffer, and gives back what is more than so much. */
static void bytes_clear(struct bytes *b, size_t keep) {
    b->n = 0;
    if (b->cap <= keep) return;
    free(b->data);
    b->data = NULL;
    b->cap = 0;
}

enum place { HEAD, LENGTH, UNTIL_CLOSE, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILERS, OVER, BROKEN };

struct framing {
    enum place place;
    struct bytes line;  /* the head so far, or a line of the chunked coding */
    uint64_t left;      /* bytes that are still to come of the body, or of this chunk of it */
    int status;         /* 0 until the head of the answer is whole; 1xx only announces one */
    bool keep_alive, has_length;
    const char *wrong;  /* why it is broken */
};

enum { LONGEST_HEAD = 65536, LONGEST_LINE = 4096 };

static void framing_reset(struct framing *f) {
    f->place = HEAD;
    f->line.n = 0;
    f->left = 0;
    f->status = 0;
    f->keep_alive = f->has_length = false;
    f->wrong = NULL;
}

static void framing_break(struct framing *f, const char *why) {
    f->place = BROKEN;
    f->wrong = why;
}

/* Whether a list of tokens with commas between has this one. */
static bool has_token(const char *list, size_t n, const char *token) {
    size_t length = strlen(token);
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && list[end] != ',') end++;
        size_t from = at, to = end;
        while (from < to && (list[from] == ' ' || list[from] == '\t')) from++;
        while (to > from && (list[to - 1] == ' ' || list[to - 1] == '\t')) to--;
        if (to - from == length && !strncasecmp(list + from, token, length)) return true;
        at = end + 1;
    }
    return false;
}

static bool read_number(const char *text, size_t n, uint64_t *number) {
    *number = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || i > 17) return false;
        *number = 10 * *number + (uint64_t)(text[i] - '0');
    }
    return n > 0;
}

struct fields {
    bool close, keep_alive, chunked, coded, length;
};

static void read_field(struct framing *f, struct fields *fields, const char *line, size_t n) {
    const char *colon = memchr(line, ':', n);
    if (!colon || colon == line || line[0] == ' ' || line[0] == '\t') {
        framing_break(f, "a header is not name: value");
        return;
    }
    size_t name = (size_t)(colon - line), value_n = n - name - 1;
    const char *value = colon + 1;
    while (value_n && (*value == ' ' || *value == '\t')) value++, value_n--;
    while (value_n && (value[value_n - 1] == ' ' || value[value_n - 1] == '\t')) value_n--;
    if (name == 14 && !strncasecmp(line, "content-length", name)) {
        uint64_t length;
        if (!read_number(value, value_n, &length) || (fields->length && length != f->left)) {
            framing_break(f, "Content-Length is no number, or two of them");
            return;
        }
        fields->length = f->has_length = true;
        f->left = length;
    } else if (name == 17 && !strncasecmp(line, "transfer-encoding", name)) {
        fields->coded = f->has_length = true;
        fields->chunked = value_n >= 7 && !strncasecmp(value + value_n - 7, "chunked", 7);
    } else if (name == 10 && !strncasecmp(line, "connection", name)) {
        fields->close |= has_token(value, value_n, "close");
        fields->keep_alive |= has_token(value, value_n, "keep-alive");
    }
}

/* Where the body is, now that the head is known. */
static void framing_begin_body(struct framing *f, const struct fields *fields, bool old) {
    f->keep_alive = old ? fields->keep_alive : !fields->close;
    f->line.n = 0;
    if (f->status == 101) {
        framing_break(f, "the server changed to another protocol");
    } else if (f->status < 200) {
        framing_reset(f);
    } else if (f->status == 204 || f->status == 304) {
        f->place = OVER;
    } else if (fields->coded && fields->length) {
        framing_break(f, "both Content-Length and Transfer-Encoding");
    } else if (fields->chunked) {
        f->place = CHUNK_SIZE;
    } else if (fields->length) {
        f->place = f->left ? LENGTH : OVER;
    } else {
        f->place = UNTIL_CLOSE;
        f->keep_alive = false;
    }
}

static void framing_read_head(struct framing *f) {
    const char *head = f->line.data, *end = head + f->line.n;
    if (f->line.n < 12 || memcmp(head, "HTTP/1.", 7) || head[8] != ' ' || (head[7] != '0' && head[7] != '1')) {
        framing_break(f, "the answer is not HTTP/1.1");
        return;
    }
    bool old = head[7] == '0';
    uint64_t status;
    bool ends = head[12] == ' ' || head[12] == '\r' || head[12] == '\n';
    if (!read_number(head + 9, 3, &status) || status < 100 || !ends) {
        framing_break(f, "the answer has no status");
        return;
    }
    f->status = (int)status;
    struct fields fields = {0};
    for (const char *line = (const char *)memchr(head, '\n', f->line.n) + 1; line < end && f->place != BROKEN;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)(stop - line);
        if (n && line[n - 1] == '\r') n--;
        if (n) read_field(f, &fields, line, n);
        line = stop + 1;
    }
    if (f->place != BROKEN) framing_begin_body(f, &fields, old);
}

/* Takes bytes up to the end of a line, and returns how many; whether the line is whole now is told by its last byte. */
static size_t take_line(struct framing *f, const char *data, size_t n, size_t longest) {
    const char *stop = memchr(data, '\n', n);
    size_t taken = stop ? (size_t)(stop - data) + 1 : n;
    bytes_append(&f->line, data, taken);
    if (f->line.n > longest) framing_break(f, "a header that does not end");
    return taken;
}

static bool is_blank_line_at_end(const struct bytes *b) {
    if (b->n >= 2 && !memcmp(b->data + b->n - 2, "\n\n", 2)) return true;
    return b->n >= 3 && !memcmp(b->data + b->n - 3, "\n\r\n", 3);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void read_chunk_size(struct framing *f) {
    uint64_t size = 0;
    size_t digits = 0;
    for (; digits < f->line.n && digits < 16; digits++) {
        int digit = hex_digit(f->line.data[digits]);
        if (digit < 0) break;
        size = 16 * size + (uint64_t)digit;
    }
    char after = f->line.data[digits];
    if (!digits || digits == 16 || !after || !strchr("\r\n; \t", after)) {
        framing_break(f, "the size of a chunk is no number");
        return;
    }
    f->line.n = 0;
    f->left = size;
    f->place = size ? CHUNK : TRAILERS;
}

/* What follows the data of a chunk: the end of a line and nothing else. */
static void read_chunk_end(struct framing *f) {
    const struct bytes *b = &f->line;
    bool begun = b->n == 1 && b->data[0] == '\r';
    bool whole = (b->n == 1 && b->data[0] == '\n') || (b->n == 2 && !memcmp(b->data, "\r\n", 2));
    if (!begun && !whole) framing_break(f, "a chunk longer than its size");
    if (whole) f->line.n = 0, f->place = CHUNK_SIZE;
}

static size_t take_body(struct framing *f, const char *data, size_t n, struct bytes *body, enum place after) {
    size_t taken = n < f->left ? n : (size_t)f->left;
    bytes_append(body, data, taken);
    f->left -= taken;
    if (!f->left) f->place = after;
    return taken;
}

/* Takes bytes until the answer is over or broken, and returns how many; the body's are appended to it. */
static size_t framing_feed(struct framing *f, const char *data, size_t n, struct bytes *body) {
    size_t at = 0;
    while (at < n && f->place != OVER && f->place != BROKEN) {
        const char *next = data + at;
        switch (f->place) {
        case HEAD:
            at += take_line(f, next, n - at, LONGEST_HEAD);
            if (f->place == HEAD && is_blank_line_at_end(&f->line)) framing_read_head(f);
            else if (f->line.n >= 5 && memcmp(f->line.data, "HTTP/", 5)) framing_break(f, "the answer is not HTTP/1.1");
            break;
        case LENGTH: at += take_body(f, next, n - at, body, OVER); break;
        case UNTIL_CLOSE:
            bytes_append(body, next, n - at);
            at = n;
            break;
        case CHUNK_SIZE:
            at += take_line(f, next, n - at, LONGEST_LINE);
            if (f->place == CHUNK_SIZE && f->line.data[f->line.n - 1] == '\n') read_chunk_size(f);
            break;
        case CHUNK: at += take_body(f, next, n - at, body, CHUNK_END); break;
        case CHUNK_END:
            at += take_line(f, next, n - at, LONGEST_LINE);
            read_chunk_end(f);
            break;
        case TRAILERS:
            at += take_line(f, next, n - at, LONGEST_HEAD);
            if (f->place != BROKEN && f->line.data[f->line.n - 1] == '\n') {
                bool blank = f->line.n == 1 || (f->line.n == 2 && f->line.data[0] == '\r');
                f->line.n = 0;
                if (blank) f->place = OVER;
            }
            break;
        case OVER:
        case BROKEN: break;
        }
    }
    return at;
}

#endif

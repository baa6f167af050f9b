/* Buffers, and what the answers say: vLLM-shaped events of about 200 bytes, in chunked transfer encoding. */
#ifndef MOCKD_PAYLOAD_H
#define MOCKD_PAYLOAD_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"
#include "words.h"

#define CREATED 1700000000

struct buf { char *p; size_t n, cap; };

/* One answer, and how much of it has been put into events so far. */
struct answer {
    bool chat, usage, ids, closes; /* closes: the connection ends with this answer */
    char head[192];                /* the part that all events of the answer share */
    size_t head_n;
    uint64_t key; /* decides the words */
    long prompt, target, tokens, chunks, steps;
};

/* splitmix64: a well-mixed function of its input, so draws depend on the request and not on the order of arrival. */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void die(const char *what) {
    fprintf(stderr, "mockd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void buf_add(struct buf *b, const char *data, size_t n) {
    if (b->n + n + 1 > b->cap) {
        b->cap = 2 * (b->n + n + 1);
        if (!(b->p = realloc(b->p, b->cap))) die("out of memory");
    }
    memcpy(b->p + b->n, data, n);
    b->n += n;
    b->p[b->n] = 0;
}

static void buf_str(struct buf *b, const char *s) { buf_add(b, s, strlen(s)); }

__attribute__((format(printf, 2, 3))) static void buf_fmt(struct buf *b, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_add(b, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void buf_drop(struct buf *b, size_t n) {
    memmove(b->p, b->p + n, b->n - n + 1);
    b->n -= n;
}

/* One SSE event is one HTTP chunk, whose size stands before it in six hexadecimal digits, filled in afterwards. */
static size_t open_event(struct buf *b) {
    buf_str(b, "000000\r\n");
    return b->n;
}

static void close_event(struct buf *b, size_t start) {
    buf_str(b, "\n\n");
    size_t size = b->n - start;
    for (int i = 0; i < 6; i++) b->p[start - 3 - (size_t)i] = "0123456789abcdef"[size >> (4 * i) & 15];
    buf_str(b, "\r\n");
}

static void put_event(struct buf *b, const char *data) {
    size_t at = open_event(b);
    buf_str(b, "data: ");
    buf_str(b, data);
    close_event(b, at);
}

static void put_headers(struct buf *b, const struct answer *a) {
    buf_str(b, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n");
    buf_str(b, a->closes ? "connection: close\r\n\r\n" : "\r\n");
}

static void put_head(struct answer *a) {
    const char *format = "data: {\"id\":\"%s-%016lx\",\"object\":\"%s\",\"created\":%d,\"model\":\"mock-model\","
                         "\"choices\":[{\"index\":0,";
    a->head_n = (size_t)snprintf(a->head, sizeof a->head, format, a->chat ? "chatcmpl" : "cmpl", a->key,
                                 a->chat ? "chat.completion.chunk" : "text_completion", CREATED);
}

static void put_words(struct buf *b, const struct answer *a, long from, long to) {
    for (long i = from; i < to; i++) {
        buf_add(b, " ", 1);
        buf_str(b, words[mix(a->key + (uint64_t)i) % WORDS]);
    }
}

static const char *finish_reason(const struct answer *a) {
    if (opt.stop_after && a->target == opt.stop_after) return "\"stop\"";
    return opt.tool_calls && a->chat ? "\"tool_calls\"" : "\"length\"";
}

/* A chat delta: reasoning for the tokens below --reasoning, then the answer or a tool call's arguments. */
static void put_delta(struct buf *b, const struct answer *a, long from, long to) {
    long split = opt.reasoning < from ? from : opt.reasoning > to ? to : opt.reasoning;
    buf_str(b, "\"delta\":{");
    if (from < split) {
        buf_str(b, "\"reasoning_content\":\"");
        put_words(b, a, from, split);
        buf_str(b, split < to ? "\"," : "\"");
    }
    if (split < to && opt.tool_calls) {
        buf_str(b, "\"tool_calls\":[{\"index\":0,");
        if (split == opt.reasoning) buf_str(b, "\"id\":\"call_0\",\"type\":\"function\",");
        buf_str(b, split == opt.reasoning ? "\"function\":{\"name\":\"lookup\",\"arguments\":\""
                                          : "\"function\":{\"arguments\":\"");
        put_words(b, a, split, to);
        buf_str(b, "\"}}]");
    } else if (split < to) {
        buf_str(b, "\"content\":\"");
        put_words(b, a, split, to);
        buf_str(b, "\"");
    }
    buf_str(b, "}");
}

static void put_tokens(struct buf *b, struct answer *a, long n) {
    size_t at = open_event(b);
    long to = a->tokens + n;
    buf_add(b, a->head, a->head_n);
    if (a->chat) {
        put_delta(b, a, a->tokens, to);
    } else {
        buf_str(b, "\"text\":\"");
        put_words(b, a, a->tokens, to);
        buf_str(b, "\"");
    }
    buf_str(b, ",\"logprobs\":null,\"finish_reason\":");
    buf_str(b, to == a->target ? finish_reason(a) : "null");
    buf_str(b, ",\"stop_reason\":null");
    if (a->ids) {
        for (long i = a->tokens; i < to; i++)
            buf_fmt(b, "%s%lu", i == a->tokens ? ",\"token_ids\":[" : ",", mix(a->key + (uint64_t)i) % WORDS);
        buf_str(b, "]");
    }
    buf_str(b, "}]}");
    close_event(b, at);
    a->tokens = to;
    a->chunks++;
}

static long step_size(const struct answer *a) {
    long n = opt.cycle[a->steps % opt.cycle_n], left = a->target - a->tokens;
    return n < left ? n : left;
}

static void put_step(struct buf *b, struct answer *a) {
    long n = step_size(a);
    a->steps++;
    if (!opt.burst) return put_tokens(b, a, n);
    while (n--) put_tokens(b, a, 1);
}

static void put_usage(struct buf *b, const struct answer *a) {
    buf_fmt(b, "\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,\"completion_tokens\":%ld}", a->prompt,
            a->prompt + a->tokens, a->tokens);
}

static void put_tail(struct buf *b, const struct answer *a) {
    if (a->usage) {
        size_t at = open_event(b);
        buf_add(b, a->head, a->head_n - strlen("{\"index\":0,"));
        buf_str(b, "],");
        put_usage(b, a);
        buf_str(b, "}");
        close_event(b, at);
    }
    if (!opt.no_done) put_event(b, "[DONE]");
    buf_str(b, "0\r\n\r\n");
}

static void put_whole(struct buf *b, struct answer *a) {
    a->tokens = a->target;
    buf_add(b, a->head + strlen("data: "), a->head_n - strlen("data: "));
    buf_str(b, a->chat ? "\"message\":{\"role\":\"assistant\",\"content\":\"" : "\"text\":\"");
    put_words(b, a, 0, a->target);
    buf_fmt(b, "\"%s,\"logprobs\":null,\"finish_reason\":%s}]", a->chat ? "}" : "", finish_reason(a));
    if (opt.usage != NEVER) {
        buf_str(b, ",");
        put_usage(b, a);
    }
    buf_str(b, "}");
}

#endif

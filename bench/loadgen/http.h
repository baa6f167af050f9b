/* The little of HTTP/1.1 and JSON that the mock server has to read: one request with a Content-Length, and single
 * fields of its body. Nothing here allocates; every pointer points into the connection's input buffer, which the caller
 * keeps NUL-terminated. */
#ifndef MOCKD_HTTP_H
#define MOCKD_HTTP_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

struct http_request {
    char method[8];
    char path[128];
    char id[64]; /* x-request-id, or "-" */
    bool keep_alive;
    const char *body;
    size_t body_len;
};

/* Copies a token up to any of the characters in `stop`. What would break a TSV line becomes '_'. */
static void http_copy(char *to, size_t cap, const char *from, const char *stop) {
    size_t n = strcspn(from, stop);
    if (n >= cap) n = cap - 1;
    for (size_t i = 0; i < n; i++) to[i] = from[i] > ' ' && from[i] < 127 ? from[i] : '_';
    to[n] = 0;
}

/* Returns the bytes that the first request in `in` takes, 0 when it is not complete yet, -1 when it is not a request
 * that this server reads. */
static ssize_t http_parse(const char *in, size_t n, struct http_request *r) {
    const char *end = memmem(in, n, "\r\n\r\n", 4);
    if (!end) return n > 65536 ? -1 : 0;
    http_copy(r->method, sizeof r->method, in, " \r\n");
    const char *path = memchr(in, ' ', (size_t)(end - in));
    const char *line = memmem(in, n, "\r\n", 2);
    if (!path || path > line || !memmem(path, (size_t)(line - path), " HTTP/1.", 8)) return -1;
    http_copy(r->path, sizeof r->path, path + 1, " ?\r\n");

    size_t length = 0;
    r->keep_alive = line[-1] != '0';
    strcpy(r->id, "-");
    while (line < end) {
        line += 2;
        const char *colon = strchr(line, ':');
        if (!colon || colon > end) return -1;
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        size_t name = (size_t)(colon - line);
        if (name == 14 && !strncasecmp(line, "content-length", name)) length = strtoul(value, NULL, 10);
        if (name == 17 && !strncasecmp(line, "transfer-encoding", name)) return -1;
        if (name == 12 && !strncasecmp(line, "x-request-id", name)) http_copy(r->id, sizeof r->id, value, "\r\n");
        if (name == 10 && !strncasecmp(line, "connection", name)) r->keep_alive = strncasecmp(value, "close", 5) != 0;
        line = strstr(line, "\r\n");
    }
    size_t head = (size_t)(end - in) + 4;
    if (n - head < length) return 0;
    r->body = in + head;
    r->body_len = length;
    return (ssize_t)(head + length);
}

/* Finds `"key":` at or after `from` and returns the start of its value, or NULL. A key inside a string value has its
 * quotes escaped, so it does not match. */
static const char *json_value(const char *from, const char *end, const char *key) {
    char quoted[64];
    size_t n = strlen(key) + 2;
    quoted[0] = '"';
    memcpy(quoted + 1, key, n - 2);
    quoted[n - 1] = '"';
    while (from < end && (from = memmem(from, (size_t)(end - from), quoted, n))) {
        from += n;
        const char *p = from + strspn(from, " \t\r\n");
        if (*p == ':') return p + 1 + strspn(p + 1, " \t\r\n");
    }
    return NULL;
}

static bool json_true(const struct http_request *r, const char *key) {
    const char *v = json_value(r->body, r->body + r->body_len, key);
    return v && !strncmp(v, "true", 4);
}

static long json_int(const struct http_request *r, const char *key, long otherwise) {
    const char *v = json_value(r->body, r->body + r->body_len, key);
    return v && ((*v >= '0' && *v <= '9') || *v == '-') ? strtol(v, NULL, 10) : otherwise;
}

/* Counts a prompt: the words of every string under `key`, or the items of a list of token ids. */
static long json_count_words(const struct http_request *r, const char *key) {
    const char *end = r->body + r->body_len;
    long words = 0;
    for (const char *v = r->body; (v = json_value(v, end, key));) {
        if (*v == '[' && v[1] != '{' && v[1] != '"') {
            for (words++; v < end && *v != ']'; v++) words += *v == ',';
        } else if (*v == '"') {
            bool inside = false;
            for (v++; v < end && *v != '"'; v++) {
                bool space = *v == ' ' || (*v == '\\' && v[1] == 'n');
                if (*v == '\\') v++;
                words += !space && !inside;
                inside = !space;
            }
        }
    }
    return words;
}

#endif

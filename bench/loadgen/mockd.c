/* mockd: a mock inference server whose every token and time is known, as the truth for tests and benchmarks of clients.
 *
 * Chunk k of a request leaves at t_req + t0 + k*dt, where t_req is the moment the whole request had been read. The
 * schedule is absolute, so a late chunk does not delay the next one. With --log, what really happened is written for
 * each request, stamped on CLOCK_MONOTONIC, the clock that clients on the same machine can read as well.
 *
 * One thread, one epoll, one heap of due times. Every chunk is one send(2), unless --coalesce joins them all. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http.h"
#include "options.h"
#include "payload.h"

#define MS 1000000L

static struct { uint64_t connections, open, requests, prompt_tokens, tokens, in_flight, max_in_flight; } count;

struct conn {
    int fd, heap_at; /* heap_at: index in the heap, -1 outside it */
    bool dead, wants_out;
    struct conn *next_dead;
    struct buf in, out; /* out: what the socket did not take yet */
    int64_t due;
    /* The request being answered. */
    bool active, streaming, stalled, headers_due, role_due;
    char id[64];
    uint64_t seq;
    enum fault fault;
    int64_t t_req, t0, dt, t_first, t_last;
    long cut_at; /* a fault that cuts the stream strikes before the step that would pass this many tokens */
    struct answer a;
    struct buf rest; /* slowbody: the second half of an event */
};

static int epoll_fd;
static FILE *log_file;
static struct conn *dead_list;
static struct buf scratch;
static volatile sig_atomic_t stopping;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* ---- the heap of due times ---- */

static struct conn **heap;
static int heap_n, heap_cap;

static void heap_place(struct conn *c, int i) {
    heap[i] = c;
    c->heap_at = i;
}

static void heap_settle(struct conn *c, int i) {
    for (; i > 0 && heap[(i - 1) / 2]->due > c->due; i = (i - 1) / 2) heap_place(heap[(i - 1) / 2], i);
    for (int child; (child = 2 * i + 1) < heap_n; i = child) {
        if (child + 1 < heap_n && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= c->due) break;
        heap_place(heap[child], i);
    }
    heap_place(c, i);
}

static void heap_set(struct conn *c, int64_t due) {
    c->due = due;
    if (c->heap_at < 0) {
        if (heap_n == heap_cap && !(heap = realloc(heap, (heap_cap = 2 * heap_cap + 64) * sizeof *heap)))
            die("out of memory");
        c->heap_at = heap_n++;
    }
    heap_settle(c, c->heap_at);
}

static void heap_remove(struct conn *c) {
    if (c->heap_at < 0) return;
    struct conn *last = heap[--heap_n];
    if (last != c) heap_settle(last, c->heap_at);
    c->heap_at = -1;
}

/* ---- connections ---- */

static void request_over(struct conn *c, const char *how) {
    if (log_file)
        fprintf(log_file, "%lu\t%s\t%s\t%ld\t%ld\t%ld\t%ld\t%ld\n", c->seq, c->id, how, c->t_req, c->t_first, c->t_last,
                c->a.tokens, c->a.chunks);
    count.tokens += (uint64_t)c->a.tokens;
    c->active = c->stalled = false;
    c->rest.n = 0;
    if (--count.in_flight == 0 && log_file) fflush(log_file);
}

/* The struct outlives the descriptor until the end of the loop's turn, since epoll may have reported it twice. */
static void conn_close(struct conn *c, bool reset) {
    if (c->dead) return;
    if (c->active) request_over(c, c->fault ? fault_names[c->fault] : "gone");
    heap_remove(c);
    if (reset) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(c->fd);
    count.open--;
    c->dead = true;
    c->next_dead = dead_list;
    dead_list = c;
}

static void watch(struct conn *c, bool out) {
    if (c->wants_out == out) return;
    c->wants_out = out;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (out ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void conn_send(struct conn *c, const char *data, size_t n) {
    if (c->dead || !n) return;
    if (!c->out.n) {
        ssize_t sent = send(c->fd, data, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return conn_close(c, false);
        if (sent == (ssize_t)n) return;
        data += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    buf_add(&c->out, data, n);
    watch(c, true);
}

static void respond(struct conn *c, const char *status, const char *type, const char *body, size_t n) {
    struct buf b = {0};
    buf_fmt(&b, "HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %zu\r\n%s\r\n", status, type, n,
            c->a.closes ? "connection: close\r\n" : "");
    buf_add(&b, body, n);
    conn_send(c, b.p, b.n);
    free(b.p);
}

/* After an answer: the connection closes, or waits for the next request, for --idle-close-ms if that is set. */
static void settle(struct conn *c) {
    if (c->dead || c->active || c->out.n) return;
    if (c->a.closes) return conn_close(c, false);
    if (opt.idle_ms > 0) heap_set(c, now_ns() + (int64_t)(opt.idle_ms * MS));
}

/* ---- answering ---- */

static void finish(struct conn *c) {
    if (c->dead) return;
    request_over(c, fault_names[c->fault]);
    settle(c);
}

static void send_scratch(struct conn *c) {
    conn_send(c, scratch.p, scratch.n);
    scratch.n = 0;
}

static bool cuts(const struct conn *c) { return c->fault != NONE && c->fault != SLOWBODY; }

/* Sends what scratch holds, then does what the request's fault says. */
static void strike(struct conn *c) {
    const char *error = "{\"error\":{\"message\":\"injected error\",\"type\":\"InternalServerError\",\"code\":500}}";
    if (c->fault == ERROR && c->streaming) {
        put_event(&scratch, error);
        if (!opt.no_done) put_event(&scratch, "[DONE]");
    }
    if (c->streaming && (c->fault == ERROR || c->fault == END_EARLY)) buf_str(&scratch, "0\r\n\r\n");
    send_scratch(c);
    c->stalled = c->fault == STALL;
    if (c->dead || c->stalled) return;
    if (c->fault == RESET || (c->fault == END_EARLY && !c->streaming)) return conn_close(c, c->fault == RESET);
    if (!c->streaming) respond(c, "200 OK", "application/json", error, strlen(error));
    finish(c);
}

static void answer_whole(struct conn *c) {
    if (cuts(c)) return strike(c);
    c->t_first = c->t_last = now_ns();
    struct buf body = {0};
    put_whole(&body, &c->a);
    respond(c, "200 OK", "application/json", body.p, body.n);
    free(body.p);
    finish(c);
}

/* Does the one thing that is due for the active request. It leaves a new due time, or the request over or stalled. */
static void advance(struct conn *c) {
    heap_remove(c);
    if (!c->streaming) return answer_whole(c);
    if (c->rest.n) {
        buf_add(&scratch, c->rest.p, c->rest.n);
        c->rest.n = 0;
    } else {
        if (c->headers_due) put_headers(&scratch, &c->a);
        c->headers_due = false;
        if (c->role_due) {
            size_t at = open_event(&scratch);
            buf_add(&scratch, c->a.head, c->a.head_n);
            buf_str(&scratch, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}");
            close_event(&scratch, at);
            c->role_due = false;
            if (opt.role_ms >= 0) {
                send_scratch(c);
                if (!c->dead) heap_set(c, c->t_req + c->t0);
                return;
            }
        }
        do {
            if (cuts(c) && c->a.tokens + step_size(&c->a) > c->cut_at) return strike(c);
            put_step(&scratch, &c->a);
        } while (opt.coalesce && c->a.tokens < c->a.target);
        c->t_last = now_ns();
        if (!c->t_first) c->t_first = c->t_last;
        if (c->fault == SLOWBODY) {
            size_t half = scratch.n / 2;
            buf_add(&c->rest, scratch.p + half, scratch.n - half);
            scratch.n = half;
        }
    }
    send_scratch(c);
    if (c->dead) return;
    if (c->rest.n) return heap_set(c, c->t_last + c->dt / 2);
    if (c->a.tokens < c->a.target) return heap_set(c, c->t_req + c->t0 + c->a.steps * c->dt);
    put_tail(&scratch, &c->a);
    send_scratch(c);
    finish(c);
}

static enum fault draw_fault(uint64_t key) {
    int draw = (int)(mix(key ^ 0xfa17) % 1000);
    for (int kind = NONE + 1; kind < FAULTS; kind++)
        if ((draw -= opt.permille[kind]) < 0) return (enum fault)kind;
    return NONE;
}

static void start_completion(struct conn *c, const struct http_request *r) {
    c->t_req = now_ns();
    c->seq = count.requests++;
    if (++count.in_flight > count.max_in_flight) count.max_in_flight = count.in_flight;
    strcpy(c->id, r->id);
    uint64_t hash = 14695981039346656037u;
    for (const char *p = c->id; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    c->a.key = mix(opt.seed ^ mix(strcmp(c->id, "-") ? hash : c->seq));
    c->fault = draw_fault(c->a.key);
    c->active = true;
    c->a.chat = strstr(r->path, "/chat/") != NULL;
    c->streaming = json_true(r, "stream");
    c->a.usage = opt.usage == ALWAYS || (opt.usage == ASKED && json_true(r, "include_usage"));
    c->a.ids = json_true(r, "return_token_ids");
    c->a.target = json_int(r, "max_tokens", json_int(r, "max_completion_tokens", 128));
    if (c->a.target < 1) c->a.target = 1;
    if (opt.stop_after && opt.stop_after < c->a.target) c->a.target = opt.stop_after;
    c->cut_at = c->a.target > 1 ? c->a.target / 2 : 0;
    c->a.prompt = json_count_words(r, c->a.chat ? "content" : "prompt");
    count.prompt_tokens += (uint64_t)c->a.prompt;
    c->headers_due = true;
    c->role_due = c->a.chat;
    c->t_first = c->t_last = c->a.tokens = c->a.chunks = c->a.steps = 0;
    double spread = opt.spread_ms * (double)(mix(c->a.key ^ 0x77f7) >> 11) / (double)(1L << 53);
    c->t0 = (int64_t)((opt.ttft_ms + spread) * MS);
    c->dt = (int64_t)(opt.tpot_ms * MS);
    if (c->fault == SLOWBODY) c->dt = 4 * c->dt + 4 * MS;
    put_head(&c->a);
    if (c->fault >= HTTP500 && c->fault <= HTTP400) {
        static const char *const status[] = {"500 Internal Server Error", "429 Too Many Requests", "400 Bad Request"};
        const char *body = "{\"error\":{\"message\":\"injected failure\",\"type\":\"mock\"}}";
        respond(c, status[c->fault - HTTP500], "application/json", body, strlen(body));
        return finish(c);
    }
    if (opt.early_headers && c->streaming) {
        put_headers(&scratch, &c->a);
        c->headers_due = false;
        send_scratch(c);
        if (c->dead) return;
    }
    if (!c->streaming) { /* leaves when its last chunk would have */
        long steps = 0, tokens = 0;
        while (tokens < c->a.target) tokens += opt.cycle[steps++ % opt.cycle_n];
        heap_set(c, c->t_req + c->t0 + (opt.coalesce ? 0 : (steps - 1) * c->dt));
    } else if (c->role_due && opt.role_ms >= 0) {
        heap_set(c, c->t_req + (int64_t)(opt.role_ms * MS));
    } else {
        heap_set(c, c->t_req + c->t0);
    }
}

static void answer_metrics(struct conn *c) {
    struct buf b = {0};
    const struct { const char *name, *type; uint64_t value; } rows[] = {
        {"vllm:prompt_tokens_total", "counter", count.prompt_tokens},
        {"vllm:generation_tokens_total", "counter", count.tokens},
        {"vllm:num_requests_running", "gauge", count.in_flight},
        {"mock:requests_total", "counter", count.requests},
        {"mock:max_in_flight", "gauge", count.max_in_flight},
        {"mock:connections_total", "counter", count.connections},
        {"mock:connections_open", "gauge", count.open},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        buf_fmt(&b, "# TYPE %s %s\n%s{model_name=\"mock-model\"} %lu\n", rows[i].name, rows[i].type, rows[i].name,
                rows[i].value);
    respond(c, "200 OK", "text/plain; version=0.0.4", b.p, b.n);
    free(b.p);
}

/* Starts the next request of the connection, if it is free and one has been read. */
static void serve(struct conn *c) {
    while (!c->dead && !c->active && !c->a.closes && c->in.n) {
        struct http_request r;
        ssize_t used = http_parse(c->in.p, c->in.n, &r);
        if (!used) return;
        heap_remove(c);
        c->a.closes = used < 0 || !r.keep_alive;
        const char *models = "{\"object\":\"list\",\"data\":[{\"id\":\"mock-model\",\"object\":\"model\"}]}";
        if (used < 0) {
            respond(c, "400 Bad Request", "text/plain", "", 0);
        } else if (!strcmp(r.path, "/v1/chat/completions") || !strcmp(r.path, "/v1/completions")) {
            start_completion(c, &r);
        } else if (!strcmp(r.path, "/health")) {
            respond(c, "200 OK", "text/plain", "", 0);
        } else if (!strcmp(r.path, "/v1/models")) {
            respond(c, "200 OK", "application/json", models, strlen(models));
        } else if (!strcmp(r.path, "/metrics")) {
            answer_metrics(c);
        } else {
            respond(c, "404 Not Found", "text/plain", "", 0);
        }
        if (c->dead) return;
        buf_drop(&c->in, used < 0 ? c->in.n : (size_t)used);
        settle(c);
    }
}

/* ---- the loop ---- */

static void on_due(struct conn *c, int64_t now) {
    if (!c->active) return conn_close(c, false); /* idle for longer than --idle-close-ms */
    /* A bounded run of chunks in a row: cheap for dt=0, and no stream starves the others. A full socket ends it; the
     * connection comes back when it can be written to. */
    for (int i = 0; i < 64 && c->active && c->heap_at >= 0 && c->due <= now; i++) {
        advance(c);
        if (c->out.n) break;
    }
    if (c->out.n) heap_remove(c);
    serve(c);
}

static void on_writable(struct conn *c) {
    ssize_t sent = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN) conn_close(c, false);
        return;
    }
    buf_drop(&c->out, (size_t)sent);
    if (c->out.n) return;
    watch(c, false);
    if (c->active && !c->stalled) heap_set(c, c->due);
    settle(c);
}

static void on_readable(struct conn *c) {
    char data[65536];
    ssize_t n = recv(c->fd, data, sizeof data, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return conn_close(c, false);
    if (n < 0) return;
    buf_add(&c->in, data, (size_t)n);
    serve(c);
}

static void on_accept(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        if (!c) die("out of memory");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        c->fd = fd;
        c->heap_at = -1;
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
        count.connections++;
        count.open++;
        settle(c);
    }
}

static void bury_dead(void) {
    for (struct conn *c; (c = dead_list);) {
        dead_list = c->next_dead;
        free(c->in.p), free(c->out.p), free(c->rest.p), free(c);
    }
}

static void run(int listener) {
    struct epoll_event events[256];
    while (!stopping) {
        int64_t wait = heap_n ? heap[0]->due - now_ns() : 1000 * MS;
        if (wait < 0) wait = 0;
        if (wait > 1000 * MS) wait = 1000 * MS; /* a signal that came just before the wait is not missed for long */
        struct timespec timeout = {wait / 1000000000L, wait % 1000000000L};
        int n = epoll_pwait2(epoll_fd, events, 256, &timeout, NULL);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) on_accept(listener);
            if (c && !c->dead && events[i].events & EPOLLOUT && c->out.n) on_writable(c);
            if (c && !c->dead && events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) on_readable(c);
        }
        int64_t now = now_ns();
        for (int i = 0; i < 1024 && heap_n && heap[0]->due <= now; i++) on_due(heap[0], now);
        bury_dead();
    }
}

/* ---- starting ---- */

static void on_signal(int number) {
    (void)number;
    stopping = 1;
}

static int listen_on(const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) errno = EINVAL, die("--host");
    if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4096)) die("cannot listen");
    getsockname(fd, (struct sockaddr *)&address, &length);
    printf("listening on %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    if (opt.log && !(log_file = fopen(opt.log, "w"))) die(opt.log);

    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    prctl(PR_SET_TIMERSLACK, 1); /* the default 50 us would show up in every due time */
    struct sigaction stop = {.sa_handler = on_signal};
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on(opt.host, opt.port);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
    run(listener);
    if (log_file) fclose(log_file);
    return 0;
}

/* One connection and the exchange on it: what is read and written, and how the exchange ends. All of it runs under the
 * reader's lock. */
#ifndef SPECTUNE_CONNECTION_H
#define SPECTUNE_CONNECTION_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "framing.h"

enum outcome { ANSWERED, PROTOCOL_ERROR, RESET, TRUNCATED, TIMED_OUT_FIRST, TIMED_OUT_IDLE, CANCELLED };
enum state { IDLE, BUSY, ENDED };
enum { SWEEP_MS = 50, AT_ONCE = 256, ONE_READ = 262144, KEPT = 65536 };
enum { READING = EPOLLIN | EPOLLRDHUP | (int)EPOLLET };
enum { TICK = -1, WAKE_UP = -2 }; /* what is no connection */
static const int64_t MS = 1000000, LATE = 1000000000;

/* A read that brought some of the body: its time, and how much of the body there was after it. */
struct mark {
    int64_t stamp, end;
};

struct result {
    int64_t sent_ns, end_ns;
    const char *body;
    const struct mark *marks;
    int64_t body_n, reads;
    const char *wrong;
    int32_t outcome, status, error, reusable;
};

struct connection {
    enum state state;
    bool dead; /* nothing is to be read or written any more */
    int fd, next_free;
    struct framing framing;
    struct bytes body, request; /* of the request what the socket has not taken yet */
    size_t request_at;
    struct mark *marks;
    size_t reads, reads_cap;
    struct result result;
};

struct reader {
    pthread_t thread;
    pthread_mutex_t lock;
    int epoll_fd, bell, wake, timer;
    bool stopping;
    int64_t first_byte_ns, idle_ns, sweep_due, from_time_of_day;
    int64_t sweeps, late_ns, latest_ns; /* how late they were in all, and at most: so late a stamp may be */
    struct connection **connections;
    int32_t n, cap, free, busy, *ended, ended_n;
    char data[ONE_READ];
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *must(void *memory) {
    if (memory) return memory;
    fputs("spectune: out of memory\n", stderr);
    abort();
}

static void watch(struct reader *r, int32_t i, int operation, int events) {
    struct epoll_event e = {.events = (uint32_t)events, .data.u32 = (uint32_t)i};
    epoll_ctl(r->epoll_fd, operation, r->connections[i]->fd, &e);
}

/* Ends a connection without closing its descriptor: only Python's thread does that, which may be about to write on it,
 * and the number of a closed one may be another file's the next moment. */
static void hang_up(struct reader *r, int32_t i) {
    struct connection *c = r->connections[i];
    epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    shutdown(c->fd, SHUT_RDWR);
    c->dead = true;
}

static void finish(struct reader *r, int32_t i, enum outcome outcome, int64_t now, int error, bool reusable) {
    struct connection *c = r->connections[i];
    c->state = ENDED;
    r->busy--;
    if (!reusable) hang_up(r, i);
    c->result.end_ns = now;
    c->result.body = c->body.data;
    c->result.body_n = (int64_t)c->body.n;
    c->result.marks = c->marks;
    c->result.reads = (int64_t)c->reads;
    c->result.wrong = c->framing.wrong;
    c->result.outcome = outcome;
    c->result.status = c->framing.status;
    c->result.error = error;
    c->result.reusable = reusable;
}

/* Ends an exchange and rings the bell, if nobody has rung it since Python looked. */
static void end(struct reader *r, int32_t i, enum outcome outcome, int64_t now, int error, bool reusable) {
    finish(r, i, outcome, now, error, reusable);
    r->ended[r->ended_n++] = i;
    if (r->ended_n == 1) eventfd_write(r->bell, 1);
}

static void lost(struct reader *r, int32_t i, int error, int64_t now) {
    struct connection *c = r->connections[i];
    int status = c->framing.status;
    if (c->state != BUSY) {
        hang_up(r, i);
    } else if (!status) {
        end(r, i, RESET, now, error, false);
    } else if (status < 200 || status > 299 || (!error && !c->framing.has_length)) {
        end(r, i, ANSWERED, now, error, false); /* an answer without a length ends with the connection */
    } else {
        end(r, i, error ? RESET : TRUNCATED, now, error, false);
    }
}

static void mark(struct connection *c, int64_t now) {
    if (c->reads == c->reads_cap) {
        c->reads_cap = 2 * c->reads_cap + 64;
        c->marks = must(realloc(c->marks, c->reads_cap * sizeof *c->marks));
    }
    c->marks[c->reads++] = (struct mark){now, (int64_t)c->body.n};
}

/* When the kernel received what it now hands over, on our clock; of several packets, the last. The kernel notes the
 * time of day. Where that makes no sense, as after the clock was set, it is now. */
static int64_t arrival(const struct reader *r, struct msghdr *message, int64_t since, int64_t now) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
        struct timespec t;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        int64_t ns = t.tv_sec * 1000000000L + t.tv_nsec + r->from_time_of_day;
        if (ns >= since && ns <= now) return ns;
    }
    return now;
}

/* What is to be added to the time of day to have our clock. */
static int64_t from_time_of_day(void) {
    int64_t narrowest = INT64_MAX, offset = 0;
    for (int k = 0; k < 4; k++) {
        struct timespec day;
        int64_t before = now_ns();
        clock_gettime(CLOCK_REALTIME, &day);
        int64_t after = now_ns();
        if (after - before >= narrowest) continue;
        narrowest = after - before;
        offset = before + narrowest / 2 - (day.tv_sec * 1000000000L + day.tv_nsec);
    }
    return offset;
}

/* Reads once, and returns how much; 0 where there is nothing to read, or nothing more to be read. */
static size_t read_once(struct reader *r, int32_t i) {
    struct connection *c = r->connections[i];
    char control[128] __attribute__((aligned(8)));
    struct iovec room = {.iov_base = r->data, .iov_len = sizeof r->data};
    struct msghdr message = {
        .msg_iov = &room, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->fd, &message, MSG_DONTWAIT);
    int64_t now = now_ns();
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0 || c->state != BUSY) { /* what comes unasked cannot be trusted, nor what follows it */
        lost(r, i, n < 0 ? errno : 0, now);
        return 0;
    }
    now = arrival(r, &message, c->reads ? c->marks[c->reads - 1].stamp : c->result.sent_ns, now);
    size_t had = c->body.n, taken = framing_feed(&c->framing, r->data, (size_t)n, &c->body);
    if (c->body.n > had) mark(c, now);
    if (c->framing.place == OVER && taken < (size_t)n)
        framing_break(&c->framing, "more than one answer to one request");
    if (c->framing.place == BROKEN) end(r, i, PROTOCOL_ERROR, now, 0, false);
    if (c->framing.place == OVER) end(r, i, ANSWERED, now, 0, c->framing.keep_alive && c->request_at == c->request.n);
    return (size_t)n;
}

/* Goes on with a request that the socket did not take at once. What goes wrong is told by the next read. */
static void on_writable(struct reader *r, int32_t i) {
    struct connection *c = r->connections[i];
    if (c->state != BUSY || c->request_at == c->request.n) return;
    ssize_t n = send(c->fd, c->request.data + c->request_at, c->request.n - c->request_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) c->request_at += (size_t)n;
    if (c->request_at < c->request.n && (n >= 0 || errno == EAGAIN || errno == EINTR)) return;
    c->result.sent_ns = now_ns();
    watch(r, i, EPOLL_CTL_MOD, READING);
}

#endif

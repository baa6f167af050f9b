/* The hot path of the load client, compiled: a thread that reads and stamps what servers answer.
 *
 * The thread waits for hundreds of connections at once, and takes off HTTP's framing. A read has the time at which the
 * kernel received it, so a stamp is not late because a hundred others are read first; nor does the thread need Python's
 * lock, so it does not wait while Python reads an answer, collects garbage, or prepares the next request. Python starts
 * exchanges and hears of their ends through an eventfd; see library.py, which also tells the fields of struct result.
 *
 * Everything is guarded by one mutex. Times are CLOCK_MONOTONIC in ns. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "connection.h"
#include "runs.h"

/* Of the functions and structures that Python uses; the same as in library.py. */
int spectune_version(void) { return 2; }

/* With so many exchanges in flight, so long a rest between two looks: what arrives meanwhile is then read at once,
 * which takes less time than to be woken for each. It has its time from the kernel all the same. */
enum { MANY = 32, REST_US = 300 };

static void sweep(struct reader *r) {
    int64_t now = now_ns(), late_ns = now - r->sweep_due;
    if (late_ns < 0) return;
    r->from_time_of_day = from_time_of_day();
    r->sweeps++;
    r->late_ns += late_ns;
    if (late_ns > r->latest_ns) r->latest_ns = late_ns;
    r->sweep_due += SWEEP_MS * MS * (1 + late_ns / (SWEEP_MS * MS));
    /* After a long pause of this process, answers may lie unread: judge only at the next turn. */
    bool late = late_ns > LATE;
    for (int32_t i = 0; i < r->n && !late; i++) {
        struct connection *c = r->connections[i];
        if (c->state != BUSY) continue;
        if (c->reads && now - c->marks[c->reads - 1].stamp > r->idle_ns) end(r, i, TIMED_OUT_IDLE, now, 0, false);
        else if (!c->reads && now - c->result.sent_ns > r->first_byte_ns) end(r, i, TIMED_OUT_FIRST, now, 0, false);
    }
}

/* Events are told once, when something comes: to be told again until it has been read costs a tenth of the read. So
 * what comes together with the end of a connection is read up to that. */
static void take(struct reader *r, int32_t i, uint32_t events) {
    const struct connection *c = r->connections[i];
    bool to_the_end = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if (events & EPOLLOUT && !c->dead) on_writable(r, i);
    while (!c->dead) {
        size_t n = read_once(r, i);
        if (!n || (n < ONE_READ && !to_the_end)) return;
    }
}

static void *read_all(void *argument) {
    struct reader *r = argument;
    struct epoll_event events[AT_ONCE];
    for (;;) {
        int n = epoll_wait(r->epoll_fd, events, AT_ONCE, -1);
        for (int k = 0; k < n; k++) {
            int32_t i = (int32_t)events[k].data.u32;
            if (i < 0) {
                uint64_t times; /* a timer goes on when it is read */
                if (read(i == TICK ? r->timer : r->wake, &times, sizeof times) < 0) times = 0;
                continue;
            }
            pthread_mutex_lock(&r->lock); /* anew for each, so that Python never waits for all of them */
            take(r, i, events[k].events);
            pthread_mutex_unlock(&r->lock);
        }
        pthread_mutex_lock(&r->lock);
        bool stopping = r->stopping;
        int32_t busy = r->busy;
        sweep(r);
        pthread_mutex_unlock(&r->lock);
        if (stopping) return NULL;
        if (busy >= MANY) nanosleep(&(struct timespec){.tv_nsec = REST_US * 1000}, NULL);
    }
}

static void free_reader(struct reader *r) {
    for (int32_t i = 0; i < r->n; i++) {
        struct connection *c = r->connections[i];
        if (c->fd >= 0) close(c->fd);
        free(c->framing.line.data);
        free(c->body.data);
        free(c->request.data);
        free(c->marks);
        free(c);
    }
    if (r->epoll_fd >= 0) close(r->epoll_fd);
    if (r->bell >= 0) close(r->bell);
    if (r->wake >= 0) close(r->wake);
    if (r->timer >= 0) close(r->timer);
    pthread_mutex_destroy(&r->lock);
    free(r->connections);
    free(r->ended);
    free(r);
}

/* Starts the thread, with the limits of every exchange; NULL with errno if it cannot be done. */
struct reader *spectune_reader_new(int64_t first_byte_ns, int64_t idle_ns) {
    struct reader *r = must(calloc(1, sizeof *r));
    pthread_mutex_init(&r->lock, NULL);
    r->first_byte_ns = first_byte_ns;
    r->idle_ns = idle_ns;
    r->free = -1;
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* A timer that goes on by itself: one for each wait has to be set each time, which costs as much as a read. */
    r->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec every = {.it_interval.tv_nsec = SWEEP_MS * MS, .it_value.tv_nsec = SWEEP_MS * MS};
    struct epoll_event tick = {.events = EPOLLIN, .data.u32 = (uint32_t)TICK};
    struct epoll_event wake_up = {.events = EPOLLIN, .data.u32 = (uint32_t)WAKE_UP};
    r->sweep_due = now_ns() + SWEEP_MS * MS;
    r->from_time_of_day = from_time_of_day();
    bool made = r->epoll_fd >= 0 && r->bell >= 0 && r->wake >= 0 && !timerfd_settime(r->timer, 0, &every, NULL) &&
                !epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->wake, &wake_up) &&
                !epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->timer, &tick);
    int wrong = made ? 0 : errno;
    if (!wrong) {
        sigset_t all, before; /* signals are Python's: its handlers run in its own thread */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        wrong = pthread_create(&r->thread, NULL, read_all, r);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!wrong) return r;
    free_reader(r);
    errno = wrong;
    return NULL;
}

/* Stops the thread and closes every connection. */
void spectune_reader_free(struct reader *r) {
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_mutex_unlock(&r->lock);
    eventfd_write(r->wake, 1);
    pthread_join(r->thread, NULL);
    free_reader(r);
}

/* Becomes readable when exchanges have ended. */
int spectune_reader_bell(struct reader *r) { return r->bell; }

static void make_room(struct reader *r) {
    if (r->n < r->cap) return;
    r->cap = 2 * r->cap + 16;
    r->connections = must(realloc(r->connections, (size_t)r->cap * sizeof *r->connections));
    r->ended = must(realloc(r->ended, (size_t)r->cap * sizeof *r->ended));
}

/* Takes over a connected socket, and returns the number that it goes by until it is closed. */
int32_t spectune_reader_add(struct reader *r, int fd) {
    pthread_mutex_lock(&r->lock);
    int32_t i = r->free;
    if (i >= 0) {
        r->free = r->connections[i]->next_free;
    } else {
        make_room(r);
        i = r->n++;
        r->connections[i] = must(calloc(1, sizeof *r->connections[i]));
    }
    r->connections[i]->state = IDLE;
    r->connections[i]->dead = false;
    r->connections[i]->fd = fd;
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &(int){1}, sizeof(int));
    watch(r, i, EPOLL_CTL_ADD, READING);
    pthread_mutex_unlock(&r->lock);
    return i;
}

/* Whether the peer has kept an idle connection open, even if the thread has not yet noticed that it did not. */
static bool is_usable(const struct connection *c) {
    struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
    return c->state == IDLE && !c->dead && poll(&p, 1, 0) == 0;
}

/* Writes a request on an idle connection. Returns 0, or -1 if the connection is of no use any more; nothing has been
 * written then. */
int spectune_reader_start(struct reader *r, int32_t i, const char *request, int64_t n) {
    pthread_mutex_lock(&r->lock);
    struct connection *c = r->connections[i];
    bool usable = is_usable(c);
    if (usable) {
        framing_reset(&c->framing);
        c->request_at = c->reads = 0;
        c->state = BUSY;
        r->busy++;
        c->result.sent_ns = now_ns();
    }
    int fd = c->fd;
    pthread_mutex_unlock(&r->lock);
    if (!usable) return -1;
    /* Not under the lock: on the loopback device, to send is to do half of the server's work. */
    ssize_t sent = send(fd, request, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == n) return 0;
    bool full = sent >= 0 || errno == EAGAIN || errno == EINTR;
    pthread_mutex_lock(&r->lock);
    if (c->state == BUSY && full) { /* of other errors the next read tells */
        size_t taken = sent > 0 ? (size_t)sent : 0;
        bytes_append(&c->request, request + taken, (size_t)n - taken);
        watch(r, i, EPOLL_CTL_MOD, READING | EPOLLOUT);
    }
    pthread_mutex_unlock(&r->lock);
    return 0;
}

/* Numbers of connections whose exchanges have ended since the last call, at most so many. */
int32_t spectune_reader_ended(struct reader *r, int32_t *numbers, int32_t most) {
    pthread_mutex_lock(&r->lock);
    int32_t n = r->ended_n < most ? r->ended_n : most;
    memcpy(numbers, r->ended, (size_t)n * sizeof *numbers);
    r->ended_n -= n;
    memmove(r->ended, r->ended + n, (size_t)r->ended_n * sizeof *r->ended);
    eventfd_t ignored;
    if (!r->ended_n) eventfd_read(r->bell, &ignored);
    pthread_mutex_unlock(&r->lock);
    return n;
}

/* How late the thread is, in ns: on average and at most so far. */
void spectune_reader_lag(struct reader *r, int64_t *mean, int64_t *most) {
    pthread_mutex_lock(&r->lock);
    *mean = r->sweeps ? r->late_ns / r->sweeps : 0;
    *most = r->latest_ns;
    pthread_mutex_unlock(&r->lock);
}

/* What came of an exchange that has ended; valid until the connection is made idle or closed. */
const struct result *spectune_reader_result(struct reader *r, int32_t i) {
    pthread_mutex_lock(&r->lock);
    const struct result *result = &r->connections[i]->result;
    pthread_mutex_unlock(&r->lock);
    return result;
}

/* Long answers of hundreds of connections would add up. */
static void forget(struct connection *c) {
    bytes_clear(&c->body, KEPT);
    bytes_clear(&c->request, KEPT);
}

/* Makes a connection ready for the next request, after its result has been read. */
void spectune_reader_reuse(struct reader *r, int32_t i) {
    pthread_mutex_lock(&r->lock);
    r->connections[i]->state = IDLE;
    forget(r->connections[i]);
    pthread_mutex_unlock(&r->lock);
}

/* Ends an exchange from this side without ringing the bell. Returns whether it was in flight. */
int spectune_reader_cancel(struct reader *r, int32_t i) {
    pthread_mutex_lock(&r->lock);
    bool busy = r->connections[i]->state == BUSY;
    if (busy) finish(r, i, CANCELLED, now_ns(), 0, false);
    pthread_mutex_unlock(&r->lock);
    return busy;
}

/* Closes a connection; its number may then be another's. What it has in flight, or has not told yet, is not told. */
void spectune_reader_close(struct reader *r, int32_t i) {
    pthread_mutex_lock(&r->lock);
    int32_t kept = 0;
    for (int32_t k = 0; k < r->ended_n; k++)
        if (r->ended[k] != i) r->ended[kept++] = r->ended[k];
    r->ended_n = kept;
    struct connection *c = r->connections[i];
    close(c->fd);
    c->fd = -1;
    c->dead = true;
    if (c->state == BUSY) r->busy--;
    c->state = IDLE;
    forget(c);
    c->next_free = r->free;
    r->free = i;
    pthread_mutex_unlock(&r->lock);
}

/* reader: the least that a load client can be, as the yardstick for the others.
 *
 * It keeps --users requests in flight, stamps what it reads, and looks at nothing but the first and the last byte of an
 * answer. With --waves all users send at the same moment, and again when all are answered. The result is one JSON object.
 *
 * Times count from just before send(2) to just after the recv(2) that brought the first, or the last, of an answer. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct user {
    int fd;
    int64_t sent, first, last;
    char end[5]; /* the last bytes read: an answer ends with "0\r\n\r\n" */
};

static struct { int port, users, tokens; long requests; bool waves; } opt = {.users = 1, .tokens = 128, .requests = 100};
static char request[4096];
static size_t request_n;
static double *ttft, *tpot, *latency;
static long begun, done;

static void die(const char *what) {
    fprintf(stderr, "reader: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void begin(struct user *u) {
    begun++;
    u->first = 0;
    memset(u->end, 0, sizeof u->end);
    u->sent = now_ns();
    if (send(u->fd, request, request_n, MSG_NOSIGNAL) != (ssize_t)request_n) die("cannot send");
}

/* Reads what there is, and returns whether the answer is over. */
static bool read_some(struct user *u) {
    static char data[262144];
    ssize_t n = recv(u->fd, data, sizeof data, 0);
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) die("the server closed a connection");
    u->last = now_ns();
    if (!u->first) u->first = u->last;
    size_t keep = sizeof u->end;
    if ((size_t)n >= keep) {
        memcpy(u->end, data + n - keep, keep);
    } else {
        memmove(u->end, u->end + n, keep - (size_t)n);
        memcpy(u->end + keep - n, data, (size_t)n);
    }
    return !memcmp(u->end, "0\r\n\r\n", keep);
}

static void note(const struct user *u) {
    ttft[done] = (double)(u->first - u->sent) / 1e6;
    latency[done] = (double)(u->last - u->sent) / 1e6;
    tpot[done] = opt.tokens > 1 ? (double)(u->last - u->first) / 1e6 / (opt.tokens - 1) : 0;
    done++;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, double *x) {
    double sum = 0;
    for (long i = 0; i < done; i++) sum += x[i];
    qsort(x, (size_t)done, sizeof *x, by_size);
    double at = 0.99 * (double)(done - 1), part = at - (double)(long)at;
    double high = x[(long)at + ((long)at + 1 < done)];
    printf("\"%s\": {\"mean\": %.4f, \"p50\": %.4f, \"p99\": %.4f}, ", name, sum / (double)done, x[done / 2],
           x[(long)at] * (1 - part) + high * part);
}

static void read_options(int argc, char **argv) {
    static const struct option options[] = {{"port", 1, NULL, 'p'},     {"users", 1, NULL, 'u'}, {"tokens", 1, NULL, 't'},
                                            {"requests", 1, NULL, 'r'}, {"waves", 0, NULL, 'w'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p') opt.port = atoi(optarg);
        if (option == 'u') opt.users = atoi(optarg);
        if (option == 't') opt.tokens = atoi(optarg);
        if (option == 'r') opt.requests = atol(optarg);
        if (option == 'w') opt.waves = true;
        if (option == '?') exit(2);
    }
    if (opt.users < 1 || opt.tokens < 1 || opt.requests < opt.users || (opt.waves && opt.requests % opt.users)) {
        fputs("reader: at least one request a user, and whole waves of them\n", stderr);
        exit(2);
    }
}

static int connect_to_server(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    char body[1024];
    int n = snprintf(body, sizeof body,
                     "{\"model\":\"mock-model\",\"prompt\":\"tell me a story\",\"max_tokens\":%d,\"stream\":true,"
                     "\"stream_options\":{\"include_usage\":true}}", opt.tokens);
    request_n = (size_t)snprintf(request, sizeof request,
                                 "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                                 "Content-Length: %d\r\n\r\n%s", n, body);
    struct user *users = calloc((size_t)opt.users, sizeof *users);
    ttft = calloc((size_t)opt.requests, sizeof *ttft);
    tpot = calloc((size_t)opt.requests, sizeof *tpot);
    latency = calloc((size_t)opt.requests, sizeof *latency);
    if (!users || !ttft || !tpot || !latency) die("out of memory");
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < opt.users; i++) {
        users[i].fd = connect_to_server();
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &users[i]};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, users[i].fd, &e);
    }
    int64_t start = now_ns();
    for (int i = 0; i < opt.users; i++) begin(&users[i]);
    struct epoll_event events[256];
    while (done < opt.requests) {
        int ready = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            struct user *u = events[i].data.ptr;
            if (!read_some(u)) continue;
            note(u);
            if (!opt.waves && begun < opt.requests) begin(u);
            if (opt.waves && done == begun && begun < opt.requests)
                for (int k = 0; k < opt.users; k++) begin(&users[k]);
        }
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"requests\": %ld, \"tokens\": %ld, \"seconds\": %.6f, ", done, done * opt.tokens, seconds);
    print_times("ttft", ttft);
    print_times("tpot", tpot);
    print_times("latency", latency);
    printf("\"cpu_s\": %.6f, \"rss_mb\": %.1f}\n",
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6,
           (double)used.ru_maxrss / 1024);
    return 0;
}

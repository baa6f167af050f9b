/* The command line of the mock server: one global, written once before the loop starts. */
#ifndef MOCKD_OPTIONS_H
#define MOCKD_OPTIONS_H

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fault { NONE, HTTP500, HTTP429, HTTP400, RESET, END_EARLY, ERROR, STALL, SLOWBODY, FAULTS };
static const char *const fault_names[] = {"-",   "http500", "http429", "http400", "reset",
                                          "eof", "error",   "stall",   "slowbody"};

static struct {
    const char *host, *log;
    int port, cycle[32], cycle_n, permille[FAULTS];
    double ttft_ms, spread_ms, tpot_ms, role_ms, idle_ms;
    long stop_after, reasoning;
    uint64_t seed;
    enum { ASKED, ALWAYS, NEVER } usage;
    int burst, coalesce, no_done, tool_calls, early_headers;
} opt = {.host = "127.0.0.1", .cycle = {1}, .cycle_n = 1, .role_ms = -1};

static void bad_usage(void) {
    fputs("usage: mockd [--port N] [--host IP] [--ttft-ms X] [--ttft-spread-ms X] [--tpot-ms X]\n"
          "  [--tokens-per-chunk 1,2,3,4] [--burst] [--coalesce] [--usage asked|always|never] [--stop-after N]\n"
          "  [--role-chunk-ms X] [--early-headers] [--no-done] [--reasoning N] [--tool-calls] [--idle-close-ms X]\n"
          "  [--fault KIND:PERMILLE]... [--seed N] [--log FILE]\n"
          "  KIND: http500 http429 http400 reset eof error stall slowbody\n", stderr);
    exit(2);
}

static void set_fault(const char *text) {
    const char *colon = strchr(text, ':');
    for (int kind = NONE + 1; colon && kind < FAULTS; kind++)
        if (!strncmp(text, fault_names[kind], (size_t)(colon - text)) && !fault_names[kind][colon - text]) {
            opt.permille[kind] = atoi(colon + 1);
            return;
        }
    bad_usage();
}

static void set_cycle(char *text) {
    opt.cycle_n = 0;
    for (char *item = strtok(text, ","); item && opt.cycle_n < 32; item = strtok(NULL, ","))
        if ((opt.cycle[opt.cycle_n++] = atoi(item)) < 1) bad_usage();
    if (!opt.cycle_n) bad_usage();
}

static void set_usage(const char *text) {
    const char *const names[] = {"asked", "always", "never"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            opt.usage = i;
            return;
        }
    bad_usage();
}

static void read_options(int argc, char **argv) {
    enum { PORT, HOST, TTFT, SPREAD, TPOT, CYCLE, USAGE, STOP, ROLE, REASONING, FAULT, SEED, LOG, IDLE };
    static const struct option options[] = {
        {"port", 1, NULL, PORT}, {"host", 1, NULL, HOST}, {"ttft-ms", 1, NULL, TTFT},
        {"ttft-spread-ms", 1, NULL, SPREAD}, {"tpot-ms", 1, NULL, TPOT}, {"tokens-per-chunk", 1, NULL, CYCLE},
        {"usage", 1, NULL, USAGE}, {"stop-after", 1, NULL, STOP}, {"role-chunk-ms", 1, NULL, ROLE},
        {"reasoning", 1, NULL, REASONING}, {"fault", 1, NULL, FAULT}, {"seed", 1, NULL, SEED}, {"log", 1, NULL, LOG},
        {"idle-close-ms", 1, NULL, IDLE}, {"burst", 0, &opt.burst, 1}, {"coalesce", 0, &opt.coalesce, 1},
        {"no-done", 0, &opt.no_done, 1}, {"tool-calls", 0, &opt.tool_calls, 1},
        {"early-headers", 0, &opt.early_headers, 1}, {0},
    };
    for (int option, index = 0; (option = getopt_long(argc, argv, "", options, &index)) != -1;) {
        if (option == '?') bad_usage();
        if (options[index].flag) continue;
        switch (option) {
        case PORT: opt.port = atoi(optarg); break;
        case HOST: opt.host = optarg; break;
        case TTFT: opt.ttft_ms = atof(optarg); break;
        case SPREAD: opt.spread_ms = atof(optarg); break;
        case TPOT: opt.tpot_ms = atof(optarg); break;
        case CYCLE: set_cycle(optarg); break;
        case USAGE: set_usage(optarg); break;
        case STOP: opt.stop_after = atol(optarg); break;
        case ROLE: opt.role_ms = atof(optarg); break;
        case REASONING: opt.reasoning = atol(optarg); break;
        case FAULT: set_fault(optarg); break;
        case SEED: opt.seed = strtoull(optarg, NULL, 10); break;
        case LOG: opt.log = optarg; break;
        case IDLE: opt.idle_ms = atof(optarg); break;
        }
    }
    if (optind < argc) bad_usage();
}

#endif

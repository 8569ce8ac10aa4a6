/* The clock of the day jumps: by an hour back, to a day ahead and home again, three times a second. For LD_PRELOAD; the
 * other clocks are the kernel's, and so is everybody else's clock of the day. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
    static const long jumps[] = {0, -3600, 86400};
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return jumps[(now.tv_sec * 10 + now.tv_nsec / 100000000) / 3 % 3];
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    int failed = (int)syscall(SYS_clock_gettime, clock, to);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        to->tv_sec += jump();
    return failed;
}

int gettimeofday(struct timeval *to, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0 * (zone != 0);
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}

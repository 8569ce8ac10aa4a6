/* N processes that sleep, the first K of which wake ten times a second: a host full of processes, most of them idle.
 * Says "ready" when all are there; they end with it, and it ends with its stdin. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100, active = argc > 2 ? atoi(argv[2]) : 10;
    pid_t parent = getpid();
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(0);
            close(0);
            close(1);
            struct timespec tenth = {0, 100000000};
            for (;;) {
                if (i >= active)
                    pause();
                nanosleep(&tenth, 0);
            }
        }
    }
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

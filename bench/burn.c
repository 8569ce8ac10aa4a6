/* Work of known size: N rounds of integer arithmetic, so that two runs' true ratio is the ratio of their N. */
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    unsigned long n = argc > 1 ? strtoul(argv[1], 0, 10) : 1000000, x = 88172645463325252UL;
    for (unsigned long i = 0; i < n; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    return x == 42;
}

/*
 * Counts the primes up to LIMIT by trial division: `prime LIMIT`, under mpirun.
 *
 * Computation with almost no communication. Ranks take chunks of the odd numbers in turn: in halves, the rank
 * with the large numbers would do most of the work; number by number, one of three ranks would get the
 * multiples of three. Prints one JSON object.
 */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 256 }; /* odd numbers */

static int is_prime(long number) /* of an odd number above 2 */
{
    for (long divisor = 3; divisor <= number / divisor; divisor += 2)
        if (number % divisor == 0)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    char *end = NULL;
    errno = 0;
    long limit = argc == 2 ? strtol(argv[1], &end, 10) : 0;
    if (limit < 2 || errno != 0 || *end != '\0') {
        if (rank == 0)
            fprintf(stderr, "usage: prime LIMIT (2 or more)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    long mine = rank == 0 ? 1 : 0; /* the 2 */
    for (long first = 3 + 2L * CHUNK * rank; first <= limit; first += 2L * CHUNK * ranks) {
        long last = first + 2L * (CHUNK - 1);
        for (long number = first; number <= last && number <= limit; number += 2)
            mine += is_prime(number);
    }
    double busy = MPI_Wtime() - start;

    long primes = 0;
    double slowest = 0, fastest = 0, elapsed = 0;
    MPI_Reduce(&mine, &primes, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&busy, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&busy, &fastest, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    double passed = MPI_Wtime() - start; /* each rank left the barrier at a moment of its own */
    MPI_Reduce(&passed, &elapsed, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

    if (rank == 0)
        printf("{\"limit\": %ld, \"ranks\": %d, \"primes\": %ld, \"elapsed_s\": %.6f, "
               "\"slowest_rank_s\": %.6f, \"fastest_rank_s\": %.6f}\n",
               limit, ranks, primes, elapsed, slowest, fastest);
    MPI_Finalize();
    return 0;
}

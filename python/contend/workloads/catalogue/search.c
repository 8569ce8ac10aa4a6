/*
 * Searches an array again and again: `search NUMBERS ROUNDS`, under mpirun.
 *
 * In every round rank 0 scatters the array, names a number, and all ranks count how often their part holds it:
 * memory bandwidth and communication, hardly any arithmetic. Prints one JSON object.
 */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static long positive(const char *text)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno == 0 && *text != '\0' && *end == '\0' && value > 0 ? value : 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    long numbers = argc == 3 ? positive(argv[1]) : 0;
    long rounds = argc == 3 ? positive(argv[2]) : 0;
    long share = numbers / ranks; /* MPI counts in int */
    if (share < 1 || share > INT_MAX || rounds < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: search NUMBERS ROUNDS (at least one number for each rank)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    int32_t *part = malloc((size_t)share * sizeof *part);
    int32_t *all = rank == 0 ? malloc((size_t)share * (size_t)ranks * sizeof *all) : NULL;
    if (part == NULL || (rank == 0 && all == NULL)) {
        fprintf(stderr, "search: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        /* A linear congruential generator (Numerical Recipes' constants); its low bits are poor. */
        uint32_t state = 1;
        for (long i = 0; i < share * ranks; i++) {
            state = state * 1664525u + 1013904223u;
            all[i] = (int32_t)(state >> 12);
        }
    }

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), communication = 0;
    long hits = 0;
    for (long round = 0; round < rounds; round++) {
        double sent = MPI_Wtime();
        int32_t wanted = rank == 0 ? all[(round * 7919) % (share * ranks)] : 0;
        MPI_Scatter(all, (int)share, MPI_INT32_T, part, (int)share, MPI_INT32_T, 0, MPI_COMM_WORLD);
        MPI_Bcast(&wanted, 1, MPI_INT32_T, 0, MPI_COMM_WORLD);
        communication += MPI_Wtime() - sent;

        long mine = 0, found = 0;
        for (long i = 0; i < share; i++)
            mine += part[i] == wanted;
        MPI_Allreduce(&mine, &found, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        hits += found;
    }
    double passed = MPI_Wtime() - start, elapsed = 0; /* each rank left the barrier at a moment of its own */
    MPI_Reduce(&passed, &elapsed, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

    if (rank == 0)
        printf("{\"numbers\": %ld, \"rounds\": %ld, \"ranks\": %d, \"hits\": %ld, \"elapsed_s\": %.6f, "
               "\"communication_s\": %.6f, \"searched_per_s\": %.1f}\n",
               share * ranks, rounds, ranks, hits, elapsed, communication,
               (double)share * ranks * (double)rounds / elapsed);
    free(part);
    free(all);
    MPI_Finalize();
    return 0;
}

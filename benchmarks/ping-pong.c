// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures messages between two processes, as flags of sluice plan-scale (docs/scaling.md).
//   mpicc -O2 benchmarks/ping-pong.c -o build/ping-pong && mpirun -n 2 build/ping-pong [BYTES]
// The latency is half of the time in which 8 bytes go to the other process and back. For the
// bandwidth both processes send BYTES (16 MiB) at the same time. Both are medians.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { repeats = 101, smallBytes = 8, largeBytes = 16 << 20 };

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/// Returns the median time of sending `bytes` to the other process while it sends as many. With
/// `turns` it answers only once it has received them, and the time is of both.
static double measure(int rank, int bytes, int turns, char *out, char *in) {
  double times[repeats];
  int other = 1 - rank;
  for (int i = -5; i < repeats; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (!turns) {
      MPI_Sendrecv(out, bytes, MPI_BYTE, other, 0, in, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    } else if (rank == 0) {
      MPI_Send(out, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    }
    if (i >= 0) { // the first ones touch memory and connect
      times[i] = MPI_Wtime() - start;
    }
  }
  qsort(times, repeats, sizeof(double), compare);
  return times[repeats / 2];
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, bytes = argc > 1 ? atoi(argv[1]) : largeBytes;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || bytes <= smallBytes) {
    fprintf(stderr, "ping-pong: expected mpirun -n 2 and more than %d bytes\n", smallBytes);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
  memset(out, 1, (size_t)bytes);
  double latency = measure(rank, smallBytes, 1, out, in) / 2;
  double seconds = measure(rank, bytes, 0, out, in) - latency;
  if (rank == 0) {
    printf("--bandwidth %.3fGB/s --latency %.3fus\n", bytes / seconds / 1e9, latency * 1e6);
  }
  MPI_Finalize();
  return 0;
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A libsluice_mpi.so whose rank 1 has 8 MB of address space left after MPI started. The environment
// variable REAL_MPI names the library that it calls.
#include "MpiInterface.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

static SluiceMpi functions;
static int64_t (*initialize)();

static int64_t initializeAndLimit() {
  int64_t status = initialize();
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (functions.rank() == 1 && file && fscanf(file, "%ld", &pages) == 1) {
    rlim_t bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (8 << 20);
    rlimit limit{bytes, bytes};
    status = setrlimit(RLIMIT_AS, &limit) == 0 ? status : -1;
  }
  if (file) {
    fclose(file);
  }
  return status;
}

extern "C" const SluiceMpi *sluice_mpi() {
  void *library = dlopen(getenv("REAL_MPI"), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    return nullptr;
  }
  functions = *reinterpret_cast<SluiceMpiGetter *>(dlsym(library, sluiceMpiSymbol))();
  initialize = functions.initialize;
  functions.initialize = initializeAndLimit;
  return &functions;
}

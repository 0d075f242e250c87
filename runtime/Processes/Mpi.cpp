// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libsluice_mpi.so: messages between processes by MPI.
#include "MpiInterface.h"

#include <mpi.h>
#include <new>

namespace {

int64_t initialize() {
  int provided = 0;
  // ProcessGroup::Presence sends from a thread of its own, never at the same time as another one.
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_SERIALIZED) {
    return -1;
  }
  return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS ? 0 : -1;
}

int64_t getRank() {
  int rank = -1;
  return MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS ? rank : -1;
}

int64_t getSize() {
  int size = -1;
  return MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS ? size : -1;
}

void *send(const uint8_t *bytes, int64_t count, int64_t to, int64_t tag) {
  auto *request = new (std::nothrow) MPI_Request;
  if (request && MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, static_cast<int>(to),
                           static_cast<int>(tag), MPI_COMM_WORLD, request) != MPI_SUCCESS) {
    delete request;
    return nullptr;
  }
  return request;
}

void *receive(uint8_t *bytes, int64_t count, int64_t from, int64_t tag) {
  auto *request = new (std::nothrow) MPI_Request;
  if (request && MPI_Irecv(bytes, static_cast<int>(count), MPI_BYTE, static_cast<int>(from),
                           static_cast<int>(tag), MPI_COMM_WORLD, request) != MPI_SUCCESS) {
    delete request;
    return nullptr;
  }
  return request;
}

int64_t test(void *opaque) {
  auto *request = static_cast<MPI_Request *>(opaque);
  int done = 0;
  if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return -1;
  }
  if (done) {
    delete request;
  }
  return done ? 1 : 0;
}

int64_t finish() { return MPI_Finalize() == MPI_SUCCESS ? 0 : -1; }

} // namespace

extern "C" const SluiceMpi *sluice_mpi() {
  static const SluiceMpi functions{sluiceMpiVersion, initialize, getRank, getSize, send,
                                   receive,          test,       finish};
  return &functions;
}

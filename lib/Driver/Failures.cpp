// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Failures.h"
#include "sluice/Support/Error.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorHandling.h"

#include <new>

using namespace sluice;
using namespace sluice::driver;

Outcome driver::explainFailures(const std::function<Outcome()> &job) {
  try {
    return job();
  } catch (const UserError &error) {
    return {2, "", error.what()};
  } catch (const JobError &error) {
    return {1, "", error.what()};
  } catch (const std::bad_alloc &) {
    return {1, "", "out of memory"};
  }
}

static void (*endProcess)(const char *message, int status) = nullptr;

static void endOutOfMemory(void *, const char *, bool) { endProcess("out of memory", 1); }

static void endFatally(void *, const char *reason, bool) {
  // The reason ends with the text of the operating system.
  bool isMachine = llvm::StringRef(reason).contains("pthread_create");
  endProcess(reason, isMachine ? 1 : 3);
}

void driver::setFailureHandler(void (*end)(const char *message, int status)) {
  endProcess = end;
  llvm::install_bad_alloc_error_handler(endOutOfMemory);
  llvm::install_fatal_error_handler(endFatally);
}

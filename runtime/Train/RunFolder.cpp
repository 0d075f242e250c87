// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RunFolder.h"

#include "sluice/Runtime/Tokenizer/FileEncoder.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Outputs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace sluice::runtime {
namespace {

/// Files that a run may have before its first checkpoint.
constexpr std::array writtenBefore = {"spec.json",     "costs.json", "metrics.jsonl",
                                      "samples.jsonl", "run.json",   runTokenizer};

/// Checks that the folder only has files of a training that was killed before its first checkpoint.
bool isKilledRun(const Path &run) {
  return std::ranges::all_of(listFolder(run), [](std::string file) {
    file = file.substr(0, file.find(".tmp-"));
    return file == "checkpoints" || file == "latest" || file == streamsFolder ||
           std::ranges::find(writtenBefore, file) != writtenBefore.end();
  });
}

/// Checks for a spec in the folder that differs from `spec`, the artifact's spec with its settings.
bool isOfOtherSpec(const Path &run, const std::string &spec) {
  Path own = run / "spec.json";
  return isThere(own) && readText(own, "run's spec") != spec;
}

} // namespace

RunLock::RunLock(const Path &run) : fd(::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    int error = errno;
    if (fd >= 0) {
      ::close(fd);
    }
    if (error != EWOULDBLOCK) {
      failWith(run.string() + ": cannot lock the run's directory: " + std::strerror(error) +
                   "; look at its permissions and at the limit on open files (ulimit -n)",
               error);
    }
    throw UserError(
        run.string() +
        ": another process is training into this run; wait for it or name another --out");
  }
}

RunLock::~RunLock() { ::close(fd); }

bool checkRunFolder(const Path &run, bool resume, const std::string &spec) {
  const std::string name = run.string();
  bool exists = isThere(run), isFolder = sluice::isFolder(run);
  if (exists && !isFolder) {
    throw UserError(name +
                    ": expected a new directory for the run, found a file; name another --out");
  }
  bool isEmpty = !exists || listFolder(run).empty();
  bool hasCheckpoint = exists && newestCheckpoint(run) >= 0;
  bool isKilled = !isEmpty && !hasCheckpoint && isKilledRun(run);
  if (isKilled && isOfOtherSpec(run, spec)) {
    throw UserError(name +
                    ": expected a new directory for the run, found a training of another spec or "
                    "other settings that ended before its first checkpoint; remove the directory, "
                    "or name another --out");
  }
  bool begins = isEmpty || isKilled;
  if (resume && !hasCheckpoint && !begins) {
    throw UserError(name +
                    ": expected a run with a checkpoint to resume, found no file \"latest\" in "
                    "it; name another --out");
  }
  if (!resume && (hasCheckpoint || !begins)) {
    throw UserError(
        name + ": expected a new directory for the run, found that it exists; name another --out" +
        (hasCheckpoint ? ", or continue it with --resume" : ""));
  }
  return hasCheckpoint;
}

void forgetRun(const Path &run, bool withFolder) {
  std::error_code ignored;
  for (const char *file : writtenBefore) {
    std::filesystem::remove(run / file, ignored);
  }
  removeAll(run / streamsFolder);
  std::filesystem::remove(run / "checkpoints", ignored); // only succeeds if it is empty
  if (withFolder) {
    std::filesystem::remove(run, ignored); // only succeeds if it is empty
  }
}

} // namespace sluice::runtime

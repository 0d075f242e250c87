// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Links in-memory objects to a shared object with the program ld.lld.
#include "sluice/Target/CPU/Object/Link.h"

#include "sluice/Support/Files.h"
#include "sluice/Support/MemoryFile.h"
#include "sluice/Support/Program.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/Program.h"

using namespace llvm;

static Error problem(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

static Expected<std::string> findLinker() {
  for (StringRef name : {"ld.lld-22", "ld.lld"}) {
    if (ErrorOr<std::string> path = sys::findProgramByName(name)) {
      return *path;
    }
  }
  return problem(
      "expected the linker ld.lld-22 or ld.lld on PATH, found neither; install the lld-22 package");
}

/// Extracts the linker's own error messages; if it crashed, drops the stack trace around them.
static std::string errorLines(StringRef log) {
  std::string text;
  // Message of the dynamic loader if the linker's libraries find no file handle; 24 is EMFILE.
  if (log.contains("error while loading shared libraries") && log.contains("Error 24")) {
    return "Too many open files; raise the limit on open files (ulimit -n)";
  }
  for (StringRef line : split(log, '\n')) {
    if (line.contains(": error: ")) {
      text += (text.empty() ? "" : ", ") + line.split(": error: ").second.str();
    }
  }
  return text;
}

/// Bundles any number of objects into one archive, which is a single open file. A single object is
/// used as it is.
static Expected<std::string> bundle(ArrayRef<StringRef> objects) {
  if (objects.size() == 1) {
    return objects.front().str();
  }
  std::vector<NewArchiveMember> members;
  for (StringRef object : objects) {
    members.emplace_back(MemoryBufferRef(object, "object"));
  }
  auto archive = writeArchiveToBuffer(members, SymtabWritingMode::NoSymtab, object::Archive::K_GNU,
                                      /*Deterministic=*/true,
                                      /*Thin=*/false);
  return archive ? Expected<std::string>((*archive)->getBuffer().str()) : archive.takeError();
}

/// Inputs, result and messages are files in memory: a killed compile leaves nothing, no temporary
/// folder is needed, and a full disk cannot crash the linker, which maps the file that it writes.
/// It writes to standard output without mapping.
Expected<std::string> sluice::cpu::linkSharedObject(ArrayRef<StringRef> objects, size_t spare) {
  Expected<std::string> linker = findLinker();
  if (!linker) {
    return linker.takeError();
  }
  std::vector<std::string> words{*linker,
                                 "-shared",
                                 "--build-id=none",
                                 "-z",
                                 "noexecstack",
                                 "--strip-debug",
                                 "--whole-archive",
                                 "-o",
                                 "-"};
  Expected<std::string> objectBytes = bundle(objects);
  if (!objectBytes) {
    return objectBytes.takeError();
  }
  MemoryFile input("sluice-objects");
  input.write(asBytes(*objectBytes));
  words.push_back(input.path());
  MemoryFile result("sluice-artifact"), log("sluice-linker-log");
  std::string failure = runProgram(words, result.descriptor(), log.descriptor());
  if (!failure.empty()) {
    std::string said = errorLines(log.read());
    return problem("the linker " + *linker + " failed: " + failure + (said.empty() ? "" : ": ") +
                   said);
  }
  return result.read(spare);
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Objects in memory to a shared object, by the linker program ld.lld.
#include "sluice/Target/CPU/Link.h"

#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/MemoryFile.h"
#include "sluice/Runtime/Program.h"

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

/// What the linker says of its own; where it died, a stack trace stands around it, which is not for
/// users.
static std::string errorLines(StringRef log) {
  std::string text;
  // The loader's words where the linker's libraries find no file handle; 24 is EMFILE.
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

/// Several objects as one archive, a single open file whatever their number; one object as it is.
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

/// Inputs, result and messages are files in memory: nothing is left of a killed compile, no folder
/// for temporary files has to be there, and a full disk cannot hit the linker, which maps what it
/// writes and dies of one. To its standard output it writes without mapping.
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
  runtime::MemoryFile input("sluice-objects");
  input.write(runtime::asBytes(*objectBytes));
  words.push_back(input.path());
  runtime::MemoryFile result("sluice-artifact"), log("sluice-linker-log");
  std::string failure = runtime::runProgram(words, result.descriptor(), log.descriptor());
  if (!failure.empty()) {
    std::string said = errorLines(log.read());
    return problem("the linker " + *linker + " failed: " + failure + (said.empty() ? "" : ": ") +
                   said);
  }
  return result.read(spare);
}

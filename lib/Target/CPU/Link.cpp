// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Objects in memory to a shared object, by the linker program ld.lld.
#include "sluice/Target/CPU/Link.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

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

static Error writeTemporary(StringRef bytes, std::string &path) {
  int descriptor = -1;
  SmallString<128> name;
  if (std::error_code code = sys::fs::createTemporaryFile("sluice", "o", descriptor, name)) {
    return problem("cannot create a temporary file: " + code.message());
  }
  path = std::string(name);
  sys::RemoveFileOnSignal(name);
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << bytes;
  stream.close();
  if (stream.has_error()) {
    std::string message = stream.error().message();
    stream.clear_error();
    return problem("cannot write " + Twine(name) + ": " + message +
                   "; free space in that folder, or let TMPDIR name another");
  }
  return Error::success();
}

/// What the linker says of its own; where it died, a stack trace stands around it, which is not for
/// users.
static std::string errorLines(StringRef log) {
  std::string text;
  for (StringRef line : split(log, '\n')) {
    if (line.contains(": error: ")) {
      text += (text.empty() ? "" : ", ") + line.split(": error: ").second.str();
    }
  }
  return text;
}

Error sluice::cpu::linkSharedObject(ArrayRef<std::string> objects, StringRef path) {
  Expected<std::string> linker = findLinker();
  if (!linker) {
    return linker.takeError();
  }
  std::vector<std::string> files;
  scope_exit remove([&] {
    for (const std::string &file : files) {
      sys::fs::remove(file);
    }
  });
  for (const std::string &object : objects) {
    files.emplace_back();
    if (Error error = writeTemporary(object, files.back())) {
      return error;
    }
  }
  std::string log;
  if (Error error = writeTemporary("", log)) {
    return error;
  }
  files.push_back(log);
  SmallVector<StringRef> command{
      *linker, "-shared", "--build-id=none", "-z", "noexecstack", "--strip-debug", "-o", path};
  command.append(files.begin(), std::prev(files.end()));
  std::string message;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  if (sys::ExecuteAndWait(*linker, command, std::nullopt, redirects, 0, 0, &message) != 0) {
    if (auto buffer = MemoryBuffer::getFile(log)) {
      message += errorLines((*buffer)->getBuffer());
    }
    return problem("the linker " + *linker + " failed on " + path + ": " + message +
                   "; free space in the folder of temporary files, or let TMPDIR name another");
  }
  return Error::success();
}

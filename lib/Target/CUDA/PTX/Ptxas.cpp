// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assembles PTX to a cubin with ptxas, or finds the cubin in the kernel cache.
#include "sluice/Target/CUDA/PTX/Ptxas.h"

#include "sluice/Support/MemoryFile.h"
#include "sluice/Support/Program.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include <sys/stat.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

/// Parses `ptxas --verbose`: a line with the kernel's name, then its stack and spills, then its
/// registers. Lines about serialized products name their function.
static std::vector<Usage> parseUsage(StringRef text) {
  llvm::Regex name("Compiling entry function '([^']+)'"), registers("Used ([0-9]+) registers");
  llvm::Regex memory(
      "([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  llvm::Regex shared("([0-9]+) bytes smem");
  llvm::Regex serial("(wgmma.mma_async instructions are serialized|warpgroup.wait is injected) "
                     ".*function '([^']+)'");
  auto number = [](StringRef digits) {
    int64_t value = 0;
    digits.getAsInteger(10, value);
    return value;
  };
  std::vector<Usage> result;
  SmallVector<StringRef> found;
  llvm::StringSet<> serialized;
  for (StringRef line : llvm::split(text, '\n')) {
    if (serial.match(line, &found)) {
      serialized.insert(found[2]);
    } else if (name.match(line, &found)) {
      result.push_back({found[1].str()});
    } else if (!result.empty() && memory.match(line, &found)) {
      result.back().stackBytes = number(found[1]);
      result.back().spillBytes = number(found[2]) + number(found[3]);
    } else if (!result.empty() && registers.match(line, &found)) {
      result.back().registers = number(found[1]);
      if (shared.match(line, &found)) {
        result.back().sharedBytes = number(found[1]);
      }
    }
  }
  for (Usage &usage : result) {
    usage.serialized = serialized.contains(usage.kernel);
  }
  return result;
}

/// Returns the options that affect the output of ptxas.
static std::vector<std::string> getOptions(const Target &target) {
  return {"--verbose", "--warn-on-spills", ("--gpu-name=" + target.chip).str()};
}

/// Returns path, size and time of the file, and the output of `--version`. Either alone would miss
/// a release that is unpacked over another one, or a script that starts another program.
static std::string identify(const std::string &program) {
  SmallString<256> path;
  struct stat status{};
  if (llvm::sys::fs::real_path(program, path) || ::stat(path.c_str(), &status) != 0) {
    return "";
  }
  MemoryFile version("sluice-ptxas-version");
  std::string failure =
      runProgram({program, "--version"}, version.descriptor(), version.descriptor());
  return failure.empty() ? llvm::join_items('\n', StringRef(path), std::to_string(status.st_size),
                                            std::to_string(status.st_mtim.tv_sec),
                                            std::to_string(status.st_mtim.tv_nsec), version.read())
                         : "";
}

std::optional<Ptxas> cuda::findPtxas() {
  auto program = llvm::sys::findProgramByName("ptxas");
  return program ? std::optional(Ptxas{*program, identify(*program)}) : std::nullopt;
}

static llvm::Expected<Binary> run(const std::string &program, StringRef ptx,
                                  std::vector<std::string> options, std::string &messages) {
  // Memory files leave nothing after a killed compile and need no temporary folder.
  MemoryFile source("sluice-ptx"), cubin("sluice-cubin"), log("sluice-ptxas-log");
  source.write({reinterpret_cast<const uint8_t *>(ptx.data()), ptx.size()});
  options.insert(options.begin(), program);
  options.insert(options.end(), {source.path(), "-o", cubin.path()});
  std::string failure = runProgram(options, log.descriptor(), log.descriptor());
  messages = log.read();
  if (!failure.empty()) {
    return llvm::createStringError("ptxas rejected a kernel: " + failure + ": " + messages);
  }
  return Binary{cubin.read(), parseUsage(messages)};
}

llvm::Expected<Binary> cuda::assemble(StringRef ptx, const Target &target, const Ptxas &ptxas,
                                      KernelCache &cache) {
  std::vector<std::string> options = getOptions(target);
  std::string messages;
  if (ptxas.identity.empty()) {
    return run(ptxas.program, ptx, options, messages);
  }
  KernelKey key = computeToolKey({"ptxas", ptxas.identity, llvm::join(options, " "), ptx});
  if (auto parts = cache.loadParts(key, 2)) {
    return Binary{std::move((*parts)[0]), parseUsage((*parts)[1])};
  }
  llvm::Expected<Binary> binary = run(ptxas.program, ptx, options, messages);
  if (binary) {
    cache.storeParts(key, {binary->cubin, messages});
  }
  return binary;
}

llvm::Expected<std::optional<Binary>> cuda::assemble(StringRef ptx, const Target &target) {
  auto program = llvm::sys::findProgramByName("ptxas");
  if (!program) {
    return std::nullopt;
  }
  std::string messages;
  llvm::Expected<Binary> binary = run(*program, ptx, getOptions(target), messages);
  if (!binary) {
    return binary.takeError();
  }
  return std::move(*binary);
}

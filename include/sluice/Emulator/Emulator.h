// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a CUDA kernel's LLVM IR, the module that feeds the NVPTX backend, on the CPU, and judges it:
// bounds, initialization, races, barriers, asynchronous copies, alignment, limits.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::emulator {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
  bool operator==(const Dim3 &) const = default;
};

/// Permission of a launch to write the bytes of a buffer.
enum class Writes {
  None, ///< an input
  Any,
  AtMostOnce, ///< an output; some elements may remain unwritten
  Once        ///< an output; every byte is written exactly once
};

/// Global memory that the launch may access; all other accesses are out of bounds. Buffers may
/// overlap: the most permissive buffer determines how often shared bytes may be written.
struct Buffer {
  std::string name;
  void *data = nullptr;
  uint64_t bytes = 0;
  Writes writes = Writes::None;
  bool initialized = true; ///< if false, a byte must be written before it is read
};

struct EmulatedLaunch {
  Dim3 grid, block;
  uint64_t dynamicSharedBytes = 0;
  /// Arguments, one per parameter: the bits of a scalar, or a pointer (for `byval`, a pointer to
  /// the aggregate).
  std::vector<uint64_t> arguments;
  std::vector<Buffer> buffers;
};

/// Choice of the thread that runs next. No schedule preempts: a thread runs until it must wait.
enum class Schedule {
  InOrder,  ///< the first thread that can run
  Random,   ///< any thread
  WarpAlone ///< a random warp runs until all its threads wait
};

/// Time at which the bytes of a cp.async arrive.
enum class Copies { Early, Late, Random };

struct Options {
  uint64_t seed = 0; ///< seeds the order of blocks too; 0 keeps the natural order
  Schedule schedule = Schedule::InOrder;
  Copies copies = Copies::Late;
  unsigned mostViolations = 16; ///< the launch stops at this number
  bool countTraffic = true;     ///< count sectors and bank conflicts
};

enum class ViolationKind {
  OutOfBounds,
  Misaligned,
  Uninitialized,
  WrittenTwice,
  NeverWritten,
  Race,              ///< between threads of a block
  BlockConflict,     ///< between blocks of a launch
  UnwaitedCopy,      ///< a conflict with an asynchronous copy that no thread waited for
  PendingCopy,       ///< a thread ends before its copies complete
  UnwaitedProduct,   ///< a conflict with a product (wgmma) that no thread waited for
  UnfencedProduct,   ///< a product may miss writes or registers that no fence made visible to it
  PendingProduct,    ///< a thread ends before its products complete
  Descriptor,        ///< of a matrix: a form that the emulator does not know
  BarrierDivergence, ///< some threads wait for threads that never arrive
  AbsentLane,        ///< a warp-wide operation without all of its lanes
  Mbarrier,
  AliasedArguments, ///< parameters that are declared `noalias`
  Limit,            ///< a limit of the architecture
  Argument          ///< the launch does not fit the kernel
};
llvm::StringRef name(ViolationKind kind);

struct Violation {
  ViolationKind kind;
  std::string kernel;
  Dim3 block, thread;      ///< indices from 0; unused if no instruction is at fault
  std::string instruction; ///< LLVM IR; empty if the launch is at fault
  std::string location;    ///< source location, if the module has debug locations
  std::string address;     ///< buffer and byte offset; empty if there is none
  std::string message;     ///< the expected and the found value

  std::string str() const;
};

/// Accesses of one instruction, counted per warp (profilers call them requests).
struct SiteTraffic {
  std::string instruction;
  uint64_t requests = 0, bytes = 0;
  uint64_t units = 0;      ///< sectors of 32 bytes (global), passes over the banks (shared)
  uint64_t leastUnits = 0; ///< minimum for the same number of bytes, if they were contiguous
};

/// A basic block, and the number of times that threads entered it.
struct BlockCount {
  std::string name;
  uint64_t instructions = 0; ///< number of LLVM IR instructions in the block
  uint64_t barriers = 0, tensorInstructions = 0;
  uint64_t entered = 0;
};

struct Counters {
  uint64_t blocks = 0, threads = 0;
  uint64_t instructions = 0;       ///< LLVM IR instructions of all threads
  uint64_t tensorInstructions = 0; ///< tensor-core instructions of warps
  uint64_t tensorFlops = 0;
  uint64_t barriers = 0;     ///< completions of a barrier of the block
  uint64_t warpBarriers = 0; ///< completions of bar.warp.sync
  uint64_t globalReadBytes = 0, globalWrittenBytes = 0;
  uint64_t sharedReadBytes = 0, sharedWrittenBytes = 0;
  /// Numbers of distinct bytes of the launch's buffers that were read and written: the traffic of
  /// memory under a perfect cache.
  uint64_t distinctReadBytes = 0, distinctWrittenBytes = 0;
  uint64_t globalRequests = 0, globalSectors = 0, leastSectors = 0;
  uint64_t sharedRequests = 0, sharedPasses = 0, leastPasses = 0;
  uint64_t bankConflicts() const { return sharedPasses - leastPasses; }
  /// Returns the share of tensor-core instructions among the instructions that warps issue.
  double tensorShare() const {
    return instructions ? 32.0 * double(tensorInstructions) / double(instructions) : 0;
  }
  std::vector<SiteTraffic> sites;
  std::vector<BlockCount> coverage;
};

struct Report {
  std::vector<Violation> violations;
  Counters counters;
  bool passed() const { return violations.empty(); }
  std::string str() const; ///< returns the violations, one per line
};

/// A kernel, compiled for the host.
class Emulator {
public:
  /// Fails if the module has no such kernel, or uses an intrinsic, inline assembly or library
  /// function that the emulator does not support.
  static llvm::Expected<std::unique_ptr<Emulator>>
  create(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context,
         llvm::StringRef kernel);
  /// Creates an emulator from bitcode or text of LLVM IR.
  static llvm::Expected<std::unique_ptr<Emulator>> create(llvm::StringRef ir,
                                                          llvm::StringRef kernel);
  ~Emulator();

  /// Runs the blocks one after the other. An emulator must not be used by several threads at once.
  Report launch(const EmulatedLaunch &launch, const Options &options = {});

private:
  struct Implementation;
  explicit Emulator(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

} // namespace sluice::emulator

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts of a kernel's module after its compilation: instructions for reports, shared memory,
// parameters, basic blocks.
#pragma once

#include "sluice/Emulator/Emulator.h"
#include "llvm/ADT/StringMap.h"

namespace sluice::emulator {

/// The threads to which an atomic or a fence applies.
enum class Scope : uint8_t { Thread, Block, Device };

/// An instruction that reads or writes memory, or calls the emulator.
struct Site {
  std::string text, location;
  uint32_t bytes = 0, align = 1;
  bool reads = false, writes = false, atomic = false;
  bool acquires = false, releases = false;
  Scope scope = Scope::Device; ///< scope of atomics and fences
};

/// Shared memory: one global of address space 3.
struct SharedGlobal {
  std::string name;
  uint64_t bytes = 0, align = 1; ///< bytes are 0 if the launch specifies the size
  bool dynamic = false;
  uint64_t address = 0;
};

struct Parameter {
  std::string name;
  bool pointer = false, noAlias = false, readOnly = false;
  uint64_t align = 1;
};

/// Constant tables: globals of the module that are not shared.
struct Table {
  std::string name, symbol;
  uint64_t bytes = 0;
  bool constant = true;
};

struct Program {
  std::string kernel;
  std::vector<Site> sites; ///< site 0 denotes no instruction
  std::vector<Parameter> parameters;
  std::vector<SharedGlobal> shared;
  std::vector<Table> tables;
  std::vector<BlockCount> blocks;
  std::vector<uint32_t> requiredThreads; ///< x, y, z; empty if any number is allowed
};

/// Maximum shared memory of a block on sm_90 (227 KB); sm_80 has 163 KB.
constexpr uint64_t mostSharedBytes = 227 * 1024;

} // namespace sluice::emulator

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that rewritten modules call at loads, stores and fences.
#include "Builtins.h"
#include "Machine.h"

using namespace sluice::emulator;

static void accessSite(uint64_t address, uint32_t site) {
  Machine &machine = Machine::current();
  machine.access(address, machine.program.sites[site].bytes, site);
}
static void fenceSite(uint32_t site) { Machine::current().fence(site); }
static void accessRange(uint64_t address, uint64_t bytes, uint32_t site) {
  Machine::current().access(address, bytes, site);
}

llvm::ArrayRef<Builtin> sluice::emulator::accessBuiltins() {
  static const Builtin table[] = {makeBuiltin("access", accessSite),
                                  makeBuiltin("range", accessRange),
                                  makeBuiltin("fence", fenceSite)};
  return table;
}

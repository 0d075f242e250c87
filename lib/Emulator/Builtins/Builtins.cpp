// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Builtins.h"

using namespace sluice::emulator;

llvm::ArrayRef<llvm::ArrayRef<Builtin>> sluice::emulator::builtins() {
  static const llvm::ArrayRef<Builtin> families[] = {
      threadBuiltins(),  matrixBuiltins(), copyBuiltins(),  mbarrierBuiltins(),
      productBuiltins(), scalarBuiltins(), accessBuiltins()};
  return families;
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The questions that dispatches and backward ops answer alike.

#ifndef SLUICE_DISPATCH_INTERFACES_TD
#define SLUICE_DISPATCH_INTERFACES_TD

include "mlir/IR/OpBase.td"

def RowReadsInterface : OpInterface<"RowReadsInterface"> {
  let description = [{
    Which rows of its operands a row of a result reads, as the op itself says it (accesses, masks), so that
    dependences can be read again after a pass and compared with what they were.
  }];
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<[{
      What row p of result `result` reads: any number of reads an operand, together all of them. None where the
      result is not one row a position (a parameter's gradient, a mean).
    }], "std::optional<::llvm::SmallVector<::sluice::dispatch::RowRead>>", "getRowReads", (ins "unsigned":$result)>,
  ];
}

def SharedMemoryInterface : OpInterface<"SharedMemoryInterface"> {
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<"Results that must have an operand's memory, each with that operand.",
    "::llvm::SmallVector<std::pair<::mlir::Value, ::mlir::Value>>", "getShared", (ins)>,
  ];
}

#endif

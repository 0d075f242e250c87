// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Dispatches each op to the generator of its family.
#include "sluice/Target/CPU/Generate.h"

#include "Attention/Attention.h"
#include "Contract/Contract.h"
#include "CrossEntropy/CrossEntropy.h"
#include "Recurrence/Recurrence.h"
#include "Rows/Rows.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;

FailureOr<cpu::Kernel> cpu::generateKernel(Operation *op, ModuleOp module, StringRef name,
                                           const Target &target) {
  return llvm::TypeSwitch<Operation *, FailureOr<Kernel>>(op)
      .Case([&](dispatch::ContractOp contract) {
        return generateContract(contract, module, name, target);
      })
      .Case([&](dispatch::WeightGradientOp gradient) {
        return generateWeightGradient(gradient, module, name, target);
      })
      .Case([&](dispatch::RowsOp rows) { return generateRows(rows, module, name, target); })
      .Case([&](dispatch::AttentionOp attention) {
        return generateAttention(attention, module, name, target);
      })
      .Case([&](dispatch::AttentionBackwardOp attention) {
        return generateAttentionBackward(attention, module, name, target);
      })
      .Case([&](dispatch::CrossEntropyOp head) {
        return generateCrossEntropy(head, module, name, target);
      })
      .Case([&](dispatch::CrossEntropyWeightGradientOp head) {
        return generateCrossEntropyWeightGradient(head, module, name, target);
      })
      .Case([&](dispatch::ScatterRowsOp scatter) {
        return generateScatterRows(scatter, module, name, target);
      })
      .Case([&](dispatch::RecurrenceOp recurrence) {
        return generateRecurrence(recurrence, module, name, target);
      })
      .Case([&](dispatch::SegmentScanOp scan) {
        return generateSegmentScan(scan, module, name, target);
      })
      .Default([&](Operation *other) -> FailureOr<Kernel> {
        return other->emitOpError("expected a dispatch op that has a CPU generator, found ")
               << other->getName();
      });
}

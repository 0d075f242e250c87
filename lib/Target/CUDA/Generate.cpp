// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dispatches each op to the generator of its family.
#include "sluice/Target/CUDA/Generate.h"

#include "Attention/Attention.h"
#include "Contract/Contract.h"
#include "CrossEntropy/CrossEntropy.h"
#include "Recurrence/Recurrence.h"
#include "Rows/Rows.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;

FailureOr<cuda::Kernel> cuda::generateKernel(Operation *op, ModuleOp module, StringRef name) {
  return llvm::TypeSwitch<Operation *, FailureOr<Kernel>>(op)
      .Case([&](dispatch::ContractOp contract) { return generateContract(contract, module, name); })
      .Case([&](dispatch::WeightGradientOp gradient) {
        return generateWeightGradient(gradient, module, name);
      })
      .Case([&](dispatch::CrossEntropyOp head) { return generateCrossEntropy(head, module, name); })
      .Case([&](dispatch::CrossEntropyWeightGradientOp head) {
        return generateCrossEntropyWeightGradient(head, module, name);
      })
      .Case([&](dispatch::AttentionOp attention) {
        return generateAttention(attention, module, name);
      })
      .Case([&](dispatch::AttentionBackwardOp attention) {
        return generateAttentionBackward(attention, module, name);
      })
      .Case([&](dispatch::RowsOp rows) { return generateRows(rows, module, name); })
      .Case([&](dispatch::RecurrenceOp recurrence) {
        return generateRecurrence(recurrence, module, name);
      })
      .Case([&](dispatch::ScatterRowsOp scatter) {
        return generateScatterRows(scatter, module, name);
      })
      .Case([&](dispatch::SegmentScanOp scan) { return generateSegmentScan(scan, module, name); })
      .Default([&](Operation *other) -> FailureOr<Kernel> {
        return other->emitOpError("expected a dispatch op that has a CUDA generator, found ")
               << other->getName() << "; compile for a CPU target instead";
      });
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fused output head and cross-entropy: selects the launches of an op.
#include "CrossEntropy.h"
#include "../TensorCore/Columns.h"
#include "sluice/Target/Common/VectorMath.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::cross_entropy;

static constexpr int64_t wantedBlocks = 264; ///< two per multiprocessor of a large GPU
static constexpr int64_t leastBlocks = 4;    ///< minimum row blocks that a split streams

LossRows::LossRows(Frame &frame, const Head &head)
    : frame(frame), e(frame.e), head(head), tokens(frame.buffer(2)),
      biases(head.bias >= 0 ? frame.buffer(unsigned(head.bias)) : Value()),
      gradients(head.rowGradient >= 0 ? frame.buffer(unsigned(head.rowGradient)) : Value()) {}

Value LossRows::getTargetToken(const Row &row) {
  Value at = e.add(row.position, head.offset);
  int64_t last = cast<MemRefType>(tokens.getType()).getDimSize(1) - 1;
  Value clamped = e.max(e.index(0), e.min(at, e.index(last)));
  Value inside = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, at, clamped);
  return e.select(inside, e.loadScalar(tokens, {row.batch, clamped}), e.integer(0));
}

Value LossRows::share() {
  if (head.domain.getAxis()) { // verified: rows of such a domain have incoming gradients, or no
                               // gradient is computed
    return arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(head.factor));
  }
  int64_t positions = head.domain.getPositions();
  bool all = head.domain.getFactor() == 0;
  Value length = frame.validLength(head.domain.getFactor(), positions, {});
  Value sequences = all ? e.index(head.rows / positions) : frame.rows;
  if (head.first > 0) {
    length = e.max(e.add(length, -head.first), e.index(1));
  }
  Value count = arith::IndexCastOp::create(e.b, e.b.getI64Type(), e.mul(length, sequences));
  Value factor = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(head.factor));
  return arith::DivFOp::create(e.b, factor, arith::SIToFPOp::create(e.b, e.b.getF32Type(), count));
}

Value LossRows::isScored(const Row &row) {
  return head.first == 0 ? row.valid
                         : e.both(row.valid, e.atLeast(row.position, e.index(head.first)));
}

Value LossRows::incoming(const Row &row) {
  Value given = gradients ? e.loadScalar(gradients, {row.batch, row.position}) : share();
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  return e.select(isScored(row), given, zero);
}

Value LossRows::exp(Value x) {
  Value result = emitExp(e, e.broadcast(x));
  return vector::ExtractOp::create(e.b, result, ArrayRef<int64_t>{0});
}

Value LossRows::lse() {
  if (head.lse >= 0) {
    return frame.buffer(unsigned(head.lse));
  }
  int64_t positions = head.domain.getPositions();
  return frame.workspaceView(MemRefType::get({head.rows / positions, positions}, e.b.getF32Type()));
}

Value LossRows::bias(Value token) {
  return biases ? e.loadScalar(biases, {e.min(token, e.index(head.vocabulary - 1))}) : Value();
}

template <typename Op> static Head findHead(Op op, ModuleOp module) {
  auto weight = cast<RankedTensorType>(op.getWeight().getType());
  return {op,
          module,
          op.getDomain(),
          static_cast<int64_t>(op.getOffset()),
          static_cast<int64_t>(op.getFirst()),
          op.getSmoothing().convertToFloat(),
          op.getFactor().convertToFloat(),
          op.getDomain().getLaunchRows(),
          weight.getDimSize(1),
          weight.getDimSize(0)};
}

/// Fails unless every tensor except factors and tokens is f32; absent tensors are null.
static LogicalResult checkF32(Operation *op, ValueRange tensors) {
  for (Value tensor : tensors) {
    if (tensor && !cast<RankedTensorType>(tensor.getType()).getElementType().isF32()) {
      return op->emitOpError("expected biases, losses, log-sum-exps and gradients of weights of "
                             "f32, found ")
             << tensor.getType();
    }
  }
  return success();
}

static Kernel buildKernel(const Head &head, int64_t products, ArrayRef<KernelStage> stages) {
  Kernel kernel;
  kernel.stages.append(stages.begin(), stages.end());
  kernel.kind = "matmul";
  double rows = double(head.rows), weights = double(head.vocabulary) * double(head.width);
  kernel.flops = 2.0 * double(products) * rows * weights;
  for (Type type : llvm::concat<const Type>(llvm::to_vector(head.op->getOperandTypes()),
                                            llvm::to_vector(head.op->getResultTypes()))) {
    auto tensor = cast<RankedTensorType>(type);
    kernel.bytes += double(tensor.getNumElements()) * tensor.getElementTypeBitWidth() / 8;
  }
  return kernel;
}

FailureOr<Kernel> cuda::generateCrossEntropy(dispatch::CrossEntropyOp op, ModuleOp module,
                                             StringRef name) {
  SmallVector<Value> gradient;
  if (op.getInputGradient()) {
    gradient.push_back(op.getInputGradient());
  }
  if (failed(checkFactors(op, {op.getInput(), op.getWeight()})) ||
      failed(checkStorage(op, gradient)) ||
      failed(checkF32(op, {op.getBias(), op.getLosses(), op.getLse(), op.getRowGradient()}))) {
    return failure();
  }
  Head head = findHead(op, module);
  int next = 3;
  head.bias = op.getBias() ? next++ : -1;
  head.rowGradient = op.getRowGradient() ? next++ : -1;
  head.losses = next++;
  head.lse = op.getLse() ? next++ : -1;
  head.inputGradient = op.getInputGradient() ? next++ : -1;
  SmallVector<KernelStage> stages{emitLosses(head, name)};
  if (head.inputGradient >= 0) {
    stages.push_back(emitGradient(head, name.str() + "_gradient", /*holdsRows=*/true, {}));
  }
  Kernel kernel = buildKernel(head, head.inputGradient >= 0 ? 2 : 1, stages);
  if (head.inputGradient >= 0) { // the second launch recomputes the logits
    for (Value factor : {op.getInput(), op.getWeight()}) {
      auto type = cast<RankedTensorType>(factor.getType());
      kernel.rereadBytes += double(type.getNumElements()) * type.getElementTypeBitWidth() / 8;
    }
  }
  bool keeps = head.inputGradient >= 0 && head.lse < 0;
  kernel.workspaceBytes = keeps ? head.rows * int64_t(sizeof(float)) : 0;
  return kernel;
}

FailureOr<Kernel>
cuda::generateCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op, ModuleOp module,
                                         StringRef name) {
  if (failed(checkFactors(op, {op.getInput(), op.getWeight()})) ||
      failed(checkF32(op, {op.getBias(), op.getLse(), op.getRowGradient(), op.getInitWeight(),
                           op.getInitBias(), op.getWeightGradient(), op.getBiasGradient()}))) {
    return failure();
  }
  Head head = findHead(op, module);
  int next = 3;
  head.lse = next++;
  head.bias = op.getBias() ? next++ : -1;
  head.rowGradient = op.getRowGradient() ? next++ : -1;
  SumTargets &targets = head.weightGradients;
  targets.initMatrix = op.getInitWeight() ? next++ : -1;
  targets.initVector = op.getInitBias() ? next++ : -1;
  targets.matrix = next++;
  targets.vector = op.getBiasGradient() ? next++ : -1;
  int64_t streamed = streamedBlocks(head, /*holdsRows=*/false);
  int64_t wanted = llvm::divideCeil(wantedBlocks, gradientBlocks(head, false));
  int64_t splits = std::min(std::max<int64_t>(1, streamed / leastBlocks), wanted);
  splits = llvm::divideCeil(streamed, llvm::divideCeil(streamed, splits));
  PartialSums parts{splits, head.vocabulary, head.width};
  Kernel kernel = buildKernel(head, 2, {emitGradient(head, name, /*holdsRows=*/false, parts)});
  kernel.counters = splits > 1 ? gradientBlocks(head, false) : 0;
  kernel.workspaceBytes = splits > 1 ? parts.bytes() : 0;
  return kernel;
}

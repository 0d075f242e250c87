// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Target/CUDA/Product.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

/// Returns true if the only result is the plain sum.
static bool yieldsTheSum(dispatch::ContractOp op) {
  Block &body = op.getEpilogue().front();
  Operation *yield = body.getTerminator();
  return op.getExtras().empty() && op.getOutputs().size() == 1 && &body.front() == yield &&
         yield->getNumOperands() == 1 && yield->getOperand(0) == body.getArgument(0);
}

static bool isWholeDomain(dispatch::DomainAttr domain, int64_t length, int64_t batch) {
  int64_t factor = domain.getFactor();
  return factor == 0 || (domain.getBatch() == batch &&
                         int64_t(llvm::divideCeil(length, factor)) == domain.getPositions());
}

std::optional<Product> cuda::findProduct(Operation *dispatch, int64_t length, int64_t batch) {
  auto op = dyn_cast<dispatch::ContractOp>(dispatch);
  if (!op || op.getDomain().getScheduled() || op.getDomain().getAxis() || !yieldsTheSum(op) ||
      !isWholeDomain(op.getDomain(), length, batch)) {
    return std::nullopt;
  }
  auto input = cast<RankedTensorType>(op.getInput().getType());
  auto weight = cast<RankedTensorType>(op.getWeight().getType());
  auto result = cast<RankedTensorType>(op.getOutputs().front().getType());
  bool isRows = input.getRank() == 3 && result.getRank() == 3 && weight.getRank() == 2 &&
                cast<dispatch::AccessAttr>(op.getResultAccesses()[0]).isIdentity();
  if (!isRows || !input.getElementType().isBF16() || !weight.getElementType().isBF16()) {
    return std::nullopt;
  }
  Product product;
  product.rows = op.getDomain().getLaunchRows();
  product.byInput = op.getByInput();
  product.columns = weight.getDimSize(product.byInput ? 1 : 0);
  product.depth = weight.getDimSize(product.byInput ? 0 : 1);
  product.isF32 = result.getElementType().isF32();
  // Rows of rank 3 are padded, and the first row of a sequence follows the last row of the previous
  // one.
  product.inputStride = dispatch::paddedWidth(product.depth);
  product.weightStride = weight.getDimSize(1);
  product.resultStride = dispatch::paddedWidth(product.columns);
  bool isDense = input.getDimSize(0) * input.getDimSize(1) == product.rows &&
                 result.getDimSize(0) * result.getDimSize(1) == product.rows &&
                 input.getDimSize(2) == product.depth && result.getDimSize(2) == product.columns;
  return isDense ? std::optional(product) : std::nullopt;
}

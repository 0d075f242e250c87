// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor-core primitives as NVVM ops.
#include "TensorCore.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

static constexpr unsigned globalSpace = 1, sharedSpace = 3;
static constexpr uint64_t sharedAlignment = 1024;
static constexpr StringRef sharedName = "dynamic_shared_memory";

/// Declares the dynamically sized shared memory of the module, `.extern .shared`. All kernels of a
/// module share the symbol.
static LLVM::GlobalOp dynamicMemory(ImplicitLocOpBuilder &b) {
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<LLVM::GlobalOp>(sharedName)) {
    return known;
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(module.getBody());
  auto none = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
  return LLVM::GlobalOp::create(b, none, /*isConstant=*/false, LLVM::Linkage::External, sharedName,
                                Attribute(), sharedAlignment, sharedSpace);
}

TensorCore::TensorCore(Frame &frame) : b(frame.b), e(frame.e) {
  base = LLVM::AddressOfOp::create(b, dynamicMemory(b));
}

static Value toWide(ImplicitLocOpBuilder &b, Value index) {
  return b.createOrFold<arith::IndexCastOp>(b.getI64Type(), index);
}

Value TensorCore::shared(Value byte, int64_t offset) { return behind(base, byte, offset); }

Value TensorCore::behind(Value pointer, Value bytes, int64_t offset) {
  Type i8 = b.getI8Type(), type = pointer.getType();
  if (bytes) {
    pointer = LLVM::GEPOp::create(b, type, i8, pointer, toWide(b, bytes));
  }
  return offset == 0 ? pointer
                     : Value(LLVM::GEPOp::create(b, type, i8, pointer,
                                                 LLVM::GEPArg(static_cast<int32_t>(offset))));
}

Value TensorCore::global(Value memory, ValueRange indices) {
  auto type = cast<MemRefType>(memory.getType());
  Value element = e.index(0);
  for (auto [index, size] : llvm::zip_equal(indices, type.getShape())) {
    element = e.add(e.mul(element, size), index);
  }
  Value start = memref::ExtractAlignedPointerAsIndexOp::create(b, memory);
  Value address = toWide(b, e.add(start, e.mul(element, type.getElementTypeBitWidth() / 8)));
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
  return LLVM::IntToPtrOp::create(b, pointer, address);
}

// 16-byte copies bypass L1: blocks share data in L2.
void TensorCore::copy(Value to, Value from, int64_t bytes, Value sourceBytes) {
  using Cache = NVVM::LoadCacheModifierKind;
  Value read = sourceBytes ? e.toInteger(sourceBytes) : Value();
  NVVM::CpAsyncOp::create(b, to, from, static_cast<uint32_t>(bytes),
                          bytes == chunkBytes ? Cache::CG : Cache::CA, read);
}

void TensorCore::commit() { NVVM::CpAsyncCommitGroupOp::create(b); }
void TensorCore::wait(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(b, static_cast<uint32_t>(pending));
}
void TensorCore::barrier() { NVVM::Barrier0Op::create(b); }

static Values getFields(ImplicitLocOpBuilder &b, Value aggregate) {
  Values fields;
  auto type = cast<LLVM::LLVMStructType>(aggregate.getType());
  for (size_t i = 0; i < type.getBody().size(); ++i) {
    fields.push_back(LLVM::ExtractValueOp::create(b, aggregate, static_cast<int64_t>(i)));
  }
  return fields;
}

Values TensorCore::loadMatrices(Value from, bool transposed) {
  auto type =
      LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getI32Type()));
  auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
  Value all = NVVM::LdMatrixOp::create(b, type, from, 4,
                                       transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
                                       shape, NVVM::LdStMatrixEltType::B16);
  return getFields(b, all);
}

Values TensorCore::multiply(ValueRange a, ValueRange c, ValueRange sums) {
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                               SmallVector<Type>(sumsPerFragment, b.getF32Type()));
  Value product = NVVM::MmaOp::create(
      b, type, a, c, sums, {fragmentRows, fragmentColumns, fragmentInner}, std::nullopt,
      std::nullopt, std::array{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
      std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  return getFields(b, product);
}

/// One instruction: cvt.rn.bf16x2.
Value TensorCore::pack(Value low, Value high) {
  Value two = vector::FromElementsOp::create(b, VectorType::get({2}, b.getF32Type()),
                                             ValueRange{low, high});
  Value rounded = arith::TruncFOp::create(b, VectorType::get({2}, b.getBF16Type()), two);
  Value bits = vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()), rounded);
  return vector::ExtractOp::create(b, bits, ArrayRef<int64_t>{0});
}

Values TensorCore::zeros(int64_t count) {
  return Values(static_cast<size_t>(count), arith::ConstantOp::create(b, b.getF32FloatAttr(0)));
}

// 128 bytes cover all banks. Shorter lines share them in pairs, hence the shift.
Value TensorCore::exchange(Value line, int64_t lineBytes) {
  int64_t chunks = std::min<int64_t>(lineBytes / chunkBytes, 8);
  Value from = line;
  if (chunks < 8) {
    from = arith::ShRUIOp::create(b, from, e.index(llvm::Log2_64(8 / chunks)));
  }
  return arith::AndIOp::create(b, from, e.index(chunks - 1));
}

Value TensorCore::swizzled(Value line, Value chunk, int64_t lineBytes) {
  Value place = arith::XOrIOp::create(b, chunk, exchange(line, lineBytes));
  return e.add(e.mul(line, lineBytes), e.mul(place, chunkBytes));
}

Value TensorCore::load(Type type, Value from, int64_t alignment) {
  return LLVM::LoadOp::create(b, type, from, static_cast<unsigned>(alignment));
}
void TensorCore::store(Value value, Value to, int64_t alignment) {
  LLVM::StoreOp::create(b, value, to, static_cast<unsigned>(alignment));
}

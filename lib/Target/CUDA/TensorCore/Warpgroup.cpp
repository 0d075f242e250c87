// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits wgmma instructions as inline assembly. Its tied operands keep LLVM from moving uses of sums
// across fences and waits, which no intrinsic does.
#include "Warpgroup.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

/// Descriptors count bytes in this unit; addresses have 18 bits (PTX ISA, matrix descriptor).
static constexpr int64_t descriptorUnit = 16, addressMask = 0x3fff;

static Value wide(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIntOp::create(b, value, 64);
}

Warpgroup::Warpgroup(Frame &frame, TensorCore &core) : frame(frame), b(frame.b), e(frame.e) {
  Value first = LLVM::PtrToIntOp::create(b, b.getI64Type(), core.shared(nullptr));
  Value narrow = arith::TruncIOp::create(b, b.getI32Type(), first);
  base = arith::AndIOp::create(b, arith::ShRUIOp::create(b, narrow, e.integer(4)),
                               e.integer(addressMask));
}

Value Warpgroup::number(int64_t count) {
  if (count == 1) {
    return e.index(0);
  }
  Value own = arith::DivUIOp::create(b, frame.warp, e.index(warpsPerWarpgroup));
  Value first =
      NVVM::ShflOp::create(b, b.getI32Type(), e.integer(-1), e.toInteger(own), e.integer(0),
                           e.integer(threadsPerWarp - 1), NVVM::ShflKind::idx, UnitAttr());
  return arith::IndexCastOp::create(b, b.getIndexType(), first);
}

void Warpgroup::publish() {
  MLIRContext *context = b.getContext();
  NVVM::FenceProxyOp::create(b, NVVM::ProxyKindAttr::get(context, NVVM::ProxyKind::async_shared),
                             NVVM::SharedSpaceAttr::get(context, NVVM::SharedSpace::shared_cta));
}

/// Emits assembly that reads and writes `sums`, operands 0 to n - 1, and reads `more`, operands 2 n
/// and up.
Values Warpgroup::assemble(StringRef text, ValueRange sums, ValueRange more) {
  std::string constraints;
  for (size_t i = 0; i < sums.size(); ++i) {
    constraints += "=f,";
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    constraints += std::to_string(i) + ",";
  }
  for (size_t i = 0; i < more.size(); ++i) {
    constraints += "l,";
  }
  constraints += "~{memory}";
  Values operands(sums);
  llvm::append_range(operands, more);
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(sums.getTypes()));
  Value all = LLVM::InlineAsmOp::create(b, type, operands, text, constraints,
                                        /*has_side_effects=*/true, /*is_align_stack=*/false,
                                        LLVM::tailcallkind::TailCallKind::None,
                                        LLVM::AsmDialectAttr(), ArrayAttr())
                  .getRes();
  Values results;
  for (size_t i = 0; i < sums.size(); ++i) {
    results.push_back(LLVM::ExtractValueOp::create(b, all, static_cast<int64_t>(i)));
  }
  return results;
}

Values Warpgroup::start(ValueRange sums) { return assemble("wgmma.fence.sync.aligned;", sums); }

void Warpgroup::commit() { NVVM::WgmmaGroupSyncAlignedOp::create(b); }

Values Warpgroup::wait(int64_t pending, ValueRange sums) {
  return assemble("wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";", sums);
}

Values Warpgroup::multiply(Value a, bool aLinesAreInner, Value c, bool cLinesAreInner,
                           ValueRange sums) {
  std::string registers;
  for (size_t i = 0; i < sums.size(); ++i) {
    registers += (i ? ", $" : "$") + std::to_string(i);
  }
  auto operand = [&](size_t i) { return "$" + std::to_string(2 * sums.size() + i); };
  auto flag = [](bool set) { return set ? "1" : "0"; };
  std::string text = "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" +
                     std::to_string(2 * sums.size()) + "k16.f32.bf16.bf16 {" + registers + "}, " +
                     operand(0) + ", " + operand(1) + ", p, 1, 1, " + flag(aLinesAreInner) + ", " +
                     flag(cLinesAreInner) + "; }";
  return assemble(text, sums, {a, c});
}

// Swizzled matrices whose lines are outer have no leading distance; the field must not be zero. The
// upper half is constant and joined last: ptxas 13.0 loses it where 64-bit constants are added.
Value Warpgroup::describe(const MatrixLayout &layout, Value byte, int64_t offset) {
  constexpr int64_t swizzle128 = 1, swizzle64 = 2;
  int64_t leading = layout.linesAreInner ? layout.panelBytes : descriptorUnit;
  int64_t stride = TensorCore::swizzlePeriod * layout.lineBytes;
  int64_t swizzle = layout.lineBytes == 128 ? swizzle128 : swizzle64;
  Value at = arith::ShRUIOp::create(b, e.toInteger(byte), e.integer(4));
  Value low =
      arith::AddIOp::create(b, arith::AddIOp::create(b, base, at),
                            e.integer(offset / descriptorUnit | leading / descriptorUnit << 16));
  auto high =
      static_cast<int64_t>(uint64_t(stride / descriptorUnit) << 32 | uint64_t(swizzle) << 62);
  return arith::OrIOp::create(b, arith::ExtUIOp::create(b, b.getI64Type(), low), wide(b, high));
}

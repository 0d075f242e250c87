// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds kernels that differ only in index constants, and merges their bodies.
//
// A model runs the same layer at several scales and batch sizes: the kernels have the same tiles,
// row strides and loops, but different numbers of rows. LLVM's time grows with code size, so each
// group of such kernels is compiled once. The differing constants are loop bounds and offsets of
// scratch; they cost a register outside the innermost loops, whose addresses use row strides only.
#include "sluice/Target/CPU/Object/SharedBodies.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include <deque>
#include <map>

using namespace mlir;
using namespace sluice;

namespace {

/// Code of a kernel without its index constants. Equal skeletons are equal programs as functions of
/// their constants.
class Skeleton {
public:
  explicit Skeleton(func::FuncOp kernel) : kernel_(kernel) { addRegion(kernel.getBody()); }

  func::FuncOp kernel() const { return kernel_; }
  ArrayRef<const void *> code() const { return code_; }
  /// Operands that are index constants, in the order of the code.
  ArrayRef<OpOperand *> constants() const { return constants_; }

private:
  void addRegion(Region &region);
  void addOperation(Operation *op);
  void addNumber(uint64_t number) { code_.push_back(reinterpret_cast<const void *>(number)); }
  void addType(Type type, bool anyRows);
  void define(Value value) { numbers_.try_emplace(value, numbers_.size()); }

  func::FuncOp kernel_;
  std::vector<const void *> code_;
  std::vector<OpOperand *> constants_;
  llvm::DenseMap<Value, uint64_t> numbers_;
};

} // namespace

static bool isIndexConstant(Operation *op) {
  return isa<arith::ConstantOp>(op) && op->getResult(0).getType().isIndex();
}

/// Returns true for ops whose lowering uses a buffer's strides but not its number of rows.
static bool ignoresRows(Operation *op) {
  return isa<amx::TileLoadOp, amx::TileStoreOp, memref::ViewOp, memref::LoadOp, memref::StoreOp,
             memref::PrefetchOp, memref::AtomicRMWOp, vector::LoadOp, vector::StoreOp,
             vector::MaskedLoadOp, vector::MaskedStoreOp>(op);
}

void Skeleton::addType(Type type, bool anyRows) {
  auto memory = dyn_cast<MemRefType>(type);
  if (anyRows && memory && memory.getRank() > 0 && memory.getLayout().isIdentity()) {
    SmallVector<int64_t> shape(memory.getShape());
    shape.front() = 1;
    type = MemRefType::Builder(memory).setShape(shape);
  }
  code_.push_back(type.getAsOpaquePointer());
}

void Skeleton::addRegion(Region &region) {
  addNumber(region.getBlocks().size());
  for (Block &block : region) {
    addNumber(block.getNumArguments());
    for (BlockArgument argument : block.getArguments()) {
      addType(argument.getType(), /*anyRows=*/false);
      define(argument);
    }
    for (Operation &op : block) {
      if (!isIndexConstant(&op)) {
        addOperation(&op);
      }
    }
    addNumber(UINT64_MAX);
  }
}

void Skeleton::addOperation(Operation *op) {
  code_.push_back(op->getName().getAsOpaquePointer());
  code_.push_back(op->getAttrDictionary().getAsOpaquePointer());
  addNumber(op->getNumOperands());
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *definition = operand.get().getDefiningOp();
    if (definition && isIndexConstant(definition)) {
      constants_.push_back(&operand);
      addNumber(UINT64_MAX);
      continue;
    }
    addNumber(numbers_.lookup(operand.get()));
    if (!ignoresRows(op)) {
      addType(operand.get().getType(), /*anyRows=*/false);
    }
  }
  addNumber(op->getNumResults());
  for (Value result : op->getResults()) {
    addType(result.getType(), /*anyRows=*/ignoresRows(op));
    define(result);
  }
  for (Region &region : op->getRegions()) {
    addRegion(region);
  }
}

static int64_t getConstant(const OpOperand *operand) {
  return *getConstantIntValue(operand->get());
}

namespace {

/// Kernels with the same skeleton.
using SkeletonGroup = SmallVector<Skeleton *>;

/// The constants that differ within a group.
struct Parameters {
  std::map<std::vector<int64_t>, SmallVector<size_t>> places; ///< places by the values in each
                                                              ///< kernel
};

} // namespace

static Parameters findParameters(const SkeletonGroup &group) {
  Parameters parameters;
  for (size_t place = 0; place < group.front()->constants().size(); ++place) {
    std::vector<int64_t> values;
    for (Skeleton *skeleton : group) {
      values.push_back(getConstant(skeleton->constants()[place]));
    }
    if (!llvm::all_equal(values)) {
      parameters.places[values].push_back(place);
    }
  }
  return parameters;
}

/// Moves the code of the group's first kernel to a private function with an additional argument per
/// parameter.
static func::FuncOp makeBody(const SkeletonGroup &group, const Parameters &parameters) {
  func::FuncOp first = group.front()->kernel();
  OpBuilder b(first);
  SmallVector<Type> types(first.getArgumentTypes());
  types.append(parameters.places.size(), b.getIndexType());
  auto body = func::FuncOp::create(b, first.getLoc(), (first.getName() + "_body").str(),
                                   b.getFunctionType(types, first.getResultTypes()));
  body.setPrivate();
  body->setAttr("llvm.linkage", LLVM::LinkageAttr::get(b.getContext(), LLVM::Linkage::Internal));
  body.getBody().takeBody(first.getBody());
  for (auto &[values, places] : parameters.places) {
    Value argument = body.getBody().addArgument(b.getIndexType(), first.getLoc());
    for (size_t place : places) {
      group.front()->constants()[place]->set(argument);
    }
  }
  return body;
}

/// Makes the kernel call the body with its own constants.
static void callBody(func::FuncOp kernel, size_t member, func::FuncOp body,
                     const Parameters &parameters) {
  kernel.getBody().getBlocks().clear();
  auto b = OpBuilder::atBlockEnd(kernel.addEntryBlock());
  SmallVector<Value> arguments(kernel.getArguments());
  for (auto &[values, places] : parameters.places) {
    arguments.push_back(arith::ConstantIndexOp::create(b, kernel.getLoc(), values[member]));
  }
  auto call = func::CallOp::create(b, kernel.getLoc(), body, arguments);
  func::ReturnOp::create(b, kernel.getLoc(), call.getResults());
}

int64_t cpu::shareBodies(ModuleOp module) {
  module.getContext()->loadDialect<LLVM::LLVMDialect>();
  std::deque<Skeleton> skeletons;
  llvm::MapVector<ArrayRef<const void *>, SkeletonGroup> groups;
  for (auto kernel : module.getOps<func::FuncOp>()) {
    Skeleton &skeleton = skeletons.emplace_back(kernel);
    groups[skeleton.code()].push_back(&skeleton);
  }
  int64_t saved = 0;
  for (auto &[code, group] : groups) {
    if (group.size() == 1) {
      continue;
    }
    Parameters parameters = findParameters(group);
    func::FuncOp body = makeBody(group, parameters);
    for (auto [member, skeleton] : llvm::enumerate(group)) {
      callBody(skeleton->kernel(), member, body, parameters);
    }
    saved += group.size() - 1;
  }
  return saved;
}

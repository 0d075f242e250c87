// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates the distinct dispatches of a module once per target.
#include "DeviceKernels.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Target/CPU/Generate.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;

/// Returns the random stream of an attention's dropout; none if it has no dropout.
static std::optional<int64_t> getDropoutStream(Operation *dispatch) {
  using TileStream = std::optional<int64_t>;
  return llvm::TypeSwitch<Operation *, TileStream>(dispatch)
      .Case<dispatch::AttentionOp, dispatch::AttentionBackwardOp>([](auto attention) {
        bool draws = attention.getDropout().convertToFloat() > 0;
        return draws ? TileStream(attention.getRandomId()) : std::nullopt;
      })
      .Default([](Operation *) { return std::nullopt; });
}

static void setDropoutStream(Operation *dispatch, int64_t id) {
  llvm::TypeSwitch<Operation *>(dispatch)
      .Case<dispatch::AttentionOp, dispatch::AttentionBackwardOp>(
          [&](auto attention) { attention.setRandomId(id); })
      .Default([](Operation *) {});
}

int64_t sluice::firstStream(Operation *dispatch) {
  int64_t least = getDropoutStream(dispatch).value_or(INT64_MAX);
  dispatch->walk(
      [&](dispatch::RandomOp random) { least = std::min<int64_t>(least, random.getId()); });
  return least == INT64_MAX ? 0 : least;
}

/// Makes ids relative to the first stream of the dispatch; an id without draws is cleared.
static void rebaseStreams(Operation *dispatch) {
  int64_t first = firstStream(dispatch);
  setDropoutStream(dispatch, getDropoutStream(dispatch).value_or(first) - first);
  dispatch->walk([&](dispatch::RandomOp random) { random.setId(random.getId() - first); });
}

/// Clones the dispatch alone, with its operands as arguments: everything that the kernel depends
/// on.
static Operation *isolate(Operation *dispatch, ModuleOp scratch) {
  OpBuilder b = OpBuilder::atBlockEnd(scratch.getBody());
  auto func = func::FuncOp::create(b, dispatch->getLoc(), "dispatch",
                                   b.getFunctionType(dispatch->getOperandTypes(), {}));
  Block *block = func.addEntryBlock();
  b.setInsertionPointToEnd(block);
  IRMapping mapping;
  mapping.map(dispatch->getOperands(), block->getArguments());
  auto copy = cast<dispatch::KernelInterface>(b.clone(*dispatch, mapping));
  copy.setBackward(false);
  copy.setGuardAttr({});
  copy.setLabelAttr({});
  copy.setRecomputed(false);
  eraseFact<plan::PlanDialect::OffsetsAttrHelper>(copy);
  eraseNames(copy);
  rebaseStreams(copy);
  return copy;
}

static std::string printIsolated(Operation *isolated) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  isolated->getParentOp()->print(stream, OpPrintingFlags().useLocalScope().printGenericOpForm());
  return text;
}

/// Returns a kernel's name: op, shapes and number, for instance contract_4x1024x256_768x256_k3.
static std::string buildKernelName(Operation *dispatch, size_t number) {
  std::string name = dispatch->getName().stripDialect().str();
  llvm::raw_string_ostream stream(name);
  for (Type type : llvm::drop_end(dispatch->getOperandTypes(),
                                  std::max<int>(0, dispatch->getNumOperands() - 2))) {
    stream << '_';
    llvm::interleave(cast<RankedTensorType>(type).getShape(), stream, "x");
  }
  stream << "_k" << number;
  return name;
}

int64_t KernelRecord::workspaceBytes() const {
  int64_t most = 0;
  for (const Variant &variant : variants) {
    most = std::max(most, variant.workspaceBytes);
  }
  for (const DeviceVariant &variant : deviceVariants) {
    most = std::max(most, variant.workspaceBytes);
  }
  return most;
}

int64_t KernelSet::workspaceBytes() const {
  int64_t most = 0;
  for (const KernelRecord &record : records) {
    most = std::max(most, record.workspaceBytes());
  }
  return most;
}

int64_t KernelRecord::counterBytes() const {
  int64_t most = 0;
  for (const Variant &variant : variants) {
    most = std::max(most, variant.counters * cpu::Kernel::counterBytes);
  }
  for (const DeviceVariant &variant : deviceVariants) {
    most = std::max(most, variant.counters * cuda::Kernel::counterBytes);
  }
  return most;
}

int64_t KernelSet::counterBytes() const {
  int64_t most = 0;
  for (const KernelRecord &record : records) {
    most = std::max(most, record.counterBytes());
  }
  return most;
}

static std::vector<KernelRecord::Operand> getOperandRecords(Operation *dispatch) {
  std::vector<KernelRecord::Operand> operands;
  auto add = [&](Type type, bool written) {
    auto tensor = cast<RankedTensorType>(type);
    int64_t bytes = tensor.getElementTypeBitWidth() / 8;
    operands.push_back({dispatch::storageElements(tensor) * bytes, written});
  };
  llvm::for_each(dispatch->getOperandTypes(), [&](Type type) { add(type, false); });
  llvm::for_each(dispatch->getResultTypes(), [&](Type type) { add(type, true); });
  return operands;
}

/// Names a generated kernel by its contents, so that its object is the same in every artifact.
/// Dispatches with equal kernels share the first one. Returns the name.
static std::string nameByContents(const cpu::Kernel &kernel, StringRef target, ModuleOp module) {
  std::string symbol =
      llvm::join_items('_', kernel.kind, toShortHash(hashKernel(kernel.function)), target);
  llvm::replace(symbol, '-', '_');
  func::FuncOp function = kernel.function;
  if (module.lookupSymbol(symbol)) {
    function.erase();
  } else {
    function.setName(symbol);
  }
  return symbol;
}

static bool usesTiles(func::FuncOp kernel) {
  return kernel.walk([](amx::TileMulFOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Generates the CPU kernels of one dispatch. If the artifact has both cpu-amx and cpu-avx512-bf16,
/// they share a kernel without AMX tiles.
static LogicalResult generateForCpus(Operation *isolated, const Targets &all, KernelSet &set,
                                     KernelRecord &record) {
  ArrayRef<const cpu::Target *> targets = all.cpus;
  for (auto [target, kernels] : llvm::zip_equal(targets, set.modules)) {
    cpu::Target sized = *target;
    sized.l2Bytes = all.l2Bytes > 0 ? all.l2Bytes : target->l2Bytes;
    FailureOr<cpu::Kernel> kernel = cpu::generateKernel(isolated, *kernels, "kernel", sized);
    if (failed(kernel)) {
      return failure();
    }
    const cpu::Target *pairs = &cpu::Target::avx512Bf16();
    if (target == &cpu::Target::amx() && !usesTiles(kernel->function) &&
        llvm::is_contained(targets, pairs)) {
      kernel->function.erase();
      continue;
    }
    std::string symbol = nameByContents(*kernel, target->name, *kernels);
    record.kind = kernel->kind.str();
    record.flops = kernel->flops;
    record.bytes = kernel->bytes;
    record.variants.push_back({target->name.str(), symbol, kernel->items, kernel->scratchBytes,
                               kernel->workspaceBytes, kernel->counters, kernel->phases});
  }
  if (record.variants.size() < targets.size()) {
    auto shared = llvm::find_if(record.variants, [](const auto &variant) {
      return variant.target == cpu::Target::avx512Bf16().name;
    });
    auto copy = *shared;
    copy.target = cpu::Target::amx().name.str();
    record.variants.push_back(std::move(copy));
  }
  return success();
}

int64_t Targets::mostSumParts() const {
  return std::max<int64_t>(
      {1, cpus.empty() ? 0 : cpu::mostSumParts, gpus.empty() ? 0 : cuda::mostSumParts});
}

std::vector<std::string> Targets::getNames() const {
  std::vector<std::string> names;
  for (const cpu::Target *target : cpus) {
    names.push_back(target->name.str());
  }
  for (const cuda::Target *target : gpus) {
    names.push_back(target->chip.str());
  }
  return names;
}

bool sluice::addTarget(StringRef name, Targets &targets) {
  bool known = false;
  auto add = [&](auto &list, const auto *target, bool isMeant) {
    known |= isMeant;
    if (isMeant && !llvm::is_contained(list, target)) {
      list.push_back(target);
    }
  };
  for (const cpu::Target *target :
       {&cpu::Target::amx(), &cpu::Target::avx512Bf16(), &cpu::Target::avx512Vnni(),
        &cpu::Target::avx512(), &cpu::Target::avx2()}) {
    add(targets.cpus, target, name == "cpu" || name == target->name);
  }
  for (const cuda::Target *target : {&cuda::Target::sm80(), &cuda::Target::sm90a()}) {
    add(targets.gpus, target, name == target->chip);
  }
  return known;
}

static bool usesBf16(ModuleOp module) {
  AttrTypeWalker walker;
  walker.addWalk([](BFloat16Type) { return WalkResult::interrupt(); });
  auto isBf16 = [&](Type type) { return walker.walk(type).wasInterrupted(); };
  return module
      .walk([&](Operation *op) {
        return llvm::any_of(op->getOperandTypes(), isBf16) ||
                       llvm::any_of(op->getResultTypes(), isBf16)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

void sluice::dropUnusedTargets(ModuleOp module, bool hasWholeWeights, Targets &targets) {
  auto replace = [&](const cpu::Target &unused, const cpu::Target &other) {
    if (llvm::is_contained(targets.cpus, &other)) {
      llvm::erase(targets.cpus, &unused);
    } else {
      llvm::replace(targets.cpus, &unused, &other);
    }
  };
  if (!usesBf16(module)) {
    replace(cpu::Target::amx(), cpu::Target::avx512Bf16());
    replace(cpu::Target::avx512Bf16(), cpu::Target::avx512Vnni());
  }
  if (!hasWholeWeights) {
    replace(cpu::Target::avx512Vnni(), cpu::Target::avx512());
  }
}

FailureOr<KernelSet> sluice::generateKernels(ModuleOp module, const Targets &targets,
                                             std::string &unsupported) {
  module.getContext()
      ->loadDialect<amx::AMXDialect, affine::AffineDialect, arith::ArithDialect, func::FuncDialect,
                    math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  KernelSet set;
  for (size_t i = 0; i < targets.cpus.size(); ++i) {
    set.modules.emplace_back(ModuleOp::create(module.getLoc()));
  }
  OwningOpRef<ModuleOp> scratch(ModuleOp::create(module.getLoc()));
  llvm::StringMap<size_t> known;
  for (auto func : module.getOps<func::FuncOp>()) {
    for (Operation &op : func.getBody().front()) {
      if (!isa<dispatch::KernelInterface>(op)) {
        continue;
      }
      Operation *isolated = isolate(&op, *scratch);
      auto [entry, isNew] = known.try_emplace(printIsolated(isolated), set.records.size());
      set.kernelOf[&op] = entry->second;
      if (!isNew) {
        isolated->getParentOp()->erase();
        continue;
      }
      KernelRecord record;
      size_t number = set.records.size();
      record.name = ::buildKernelName(&op, number);
      record.operands = getOperandRecords(isolated);
      record.drawsByUpdate = dispatch::drawsByUpdate(isolated);
      record.scheduled = bool(dispatch::findSchedule(isolated));
      record.dispatch = entry->first().str();
      if (!targets.gpus.empty()) {
        record.product = cuda::findProduct(isolated, getContext(module), getBatch(module));
      }
      if (failed(generateForCpus(isolated, targets, set, record)) ||
          failed(generateForDevices(isolated, number, targets.gpus, set, record, unsupported))) {
        return failure();
      }
      set.records.push_back(std::move(record));
    }
  }
  return set;
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Step.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Replay/Replay.h"

#include <cstring>
#include <set>

using namespace sluice;
using namespace sluice::mutation;

/// The dispatch of a kernel, for the replay.
class Step::Dispatch {
public:
  Dispatch(const runtime::Artifact &artifact, int64_t kernel) {
    context
        .loadDialect<dispatch::DispatchDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                     mlir::math::MathDialect, mlir::tensor::TensorDialect>();
    auto text = artifact.blob("k" + std::to_string(kernel) + "_dispatch");
    module = mlir::parseSourceString<mlir::ModuleOp>(
        llvm::StringRef(reinterpret_cast<const char *>(text.data()), text.size()),
        mlir::ParserConfig(&context, /*verifyAfterParse=*/false));
    if (module) {
      module->walk([&](mlir::Operation *found) {
        bool isKernel = llvm::isa_and_nonnull<mlir::func::FuncOp>(found->getParentOp()) &&
                        found->hasAttr("domain");
        op = isKernel ? found : op;
      });
    }
    if (!op) {
      throw std::runtime_error("kernel " + std::to_string(kernel) + " has no dispatch");
    }
  }
  mlir::Operation *op = nullptr;

private:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

std::vector<Occasion> sluice::mutation::occasionsOf(const runtime::Plan &plan) {
  int64_t context = plan.model.context, batch = plan.model.batch, steps = plan.trainingSteps;
  return {{"full", {context, batch}, 1},
          {"ragged", {std::max<int64_t>(1, context - 4), std::max<int64_t>(1, batch - 1)}, 2},
          {"short", {std::max<int64_t>(1, context / 2), batch}, std::max<int64_t>(1, steps / 2)},
          {"single", {1, 1}, steps + 1}};
}

Step::Step(const runtime::Artifact &artifact, std::string target, const Occasion &occasion)
    : artifact(artifact), plan(artifact.plan()), target(std::move(target)), occasion(occasion),
      arena(static_cast<uint8_t *>(
                std::aligned_alloc(4096, size_t(plan.memory.arenaBytes + 4095) / 4096 * 4096)),
            std::free) {
  std::memset(arena.get(), 0, size_t(plan.memory.arenaBytes));
  auto constants = artifact.constants();
  std::memcpy(arena.get() + plan.constantsOffset, constants.data(), constants.size());
  scalar("length") = occasion.extent.length;
  scalar("rows") = occasion.extent.rows;
  scalar("step") = occasion.step;
  scalar("seed") = 7;
  const runtime::Region &tokens = plan.inputs.at("tokens");
  for (int64_t i = 0; i < tokens.shape[0] * tokens.rowStride; ++i) {
    // The first and the last token too.
    auto last = static_cast<int32_t>(plan.model.vocabulary - 1);
    int32_t token = i % 7 == 3 ? last : static_cast<int32_t>(i * i * 31 % plan.model.vocabulary);
    std::memcpy(arena.get() + tokens.offset + i * 4, &token, 4);
  }
}

Step::~Step() = default;

int64_t &Step::scalar(const std::string &name) {
  return *reinterpret_cast<int64_t *>(arena.get() + plan.scalars.at(name).offset);
}

emulator::Emulator &Step::emulatorOf(const Subject &subject, const std::string &stage) {
  auto &known = emulators[stage];
  if (!known) {
    auto made = emulator::Emulator::create(subject.ir, stage);
    if (!made) {
      throw std::runtime_error(llvm::toString(made.takeError()));
    }
    known = std::move(*made);
  }
  return *known;
}

Step::Dispatch &Step::dispatchOf(int64_t kernel) {
  std::unique_ptr<Dispatch> &dispatch = dispatches[kernel];
  if (!dispatch) {
    dispatch = std::make_unique<Dispatch>(artifact, kernel);
  }
  return *dispatch;
}

/// What the launch may write of a result: its valid rows, each byte once, where it is the kernel's
/// only stage; else once at most a stage, for stages share results out.
void Step::addResult(const runtime::Launch &launch, size_t operand, unsigned result, bool only,
                     bool later, std::vector<emulator::Buffer> &buffers) {
  using emulator::Writes;
  uint8_t *data = arena.get() + launch.arguments[operand];
  auto bytes = uint64_t(plan.kernels[size_t(launch.kernel)].operands[operand].bytes);
  std::string name = "buffer " + std::to_string(operand);
  buffers.push_back({name, data, bytes, Writes::None, later});
  for (replay::Bytes part :
       replay::writtenBytes(dispatchOf(launch.kernel).op, result, occasion.extent)) {
    buffers.push_back({name, data + part.offset, uint64_t(part.count),
                       only ? Writes::Once : Writes::AtMostOnce, later});
  }
}

void Step::addBuffers(const runtime::Launch &launch, bool only, bool later,
                      std::vector<emulator::Buffer> &buffers) {
  const auto &operands = plan.kernels[size_t(launch.kernel)].operands;
  unsigned results = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].written) {
      addResult(launch, i, results++, only, later, buffers);
    } else {
      buffers.push_back({"buffer " + std::to_string(i), arena.get() + launch.arguments[i],
                         uint64_t(operands[i].bytes)});
    }
  }
  for (const char *name : {"length", "rows", "step", "seed"}) {
    buffers.push_back({name, &scalar(name), 8});
  }
  int64_t workspace = plan.kernels[size_t(launch.kernel)].deviceVariants.at(target).workspaceBytes;
  if (workspace > 0) {
    buffers.push_back({"workspace", arena.get() + launch.arguments.back(), uint64_t(workspace),
                       emulator::Writes::AtMostOnce, later});
  }
  buffers.push_back(
      {"arguments", const_cast<int64_t *>(launch.arguments.data()), launch.arguments.size() * 8});
}

/// What nothing may depend on holds NaN: results, unless they lie where operands do, padding, and
/// rows that are not valid. Zeros that should be written and are zeros already hide nothing then.
void Step::poison(const runtime::Launch &launch) {
  const auto &operands = plan.kernels[size_t(launch.kernel)].operands;
  auto overlaps = [&](size_t i, size_t j) {
    int64_t a = launch.arguments[i], b = launch.arguments[j];
    return a < b + operands[j].bytes && b < a + operands[i].bytes;
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    bool shared = false;
    for (size_t j = 0; j < operands.size(); ++j) {
      shared |= !operands[j].written && overlaps(i, j);
    }
    if (operands[i].written && !shared) {
      std::memset(arena.get() + launch.arguments[i], 0xff, size_t(operands[i].bytes));
    }
  }
  mlir::Operation *op = dispatchOf(launch.kernel).op;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    for (replay::Bytes part : replay::ignoredBytes(op, i, occasion.extent)) {
      std::memset(arena.get() + launch.arguments[i] + part.offset, 0xff, size_t(part.count));
    }
  }
}

std::string Step::judge(const runtime::Launch &launch,
                        const std::vector<std::vector<uint8_t>> &before) {
  const auto &operands = plan.kernels[size_t(launch.kernel)].operands;
  replay::Launch done;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].written) {
      done.results.push_back(arena.get() + launch.arguments[i]);
    } else {
      done.operands.push_back(before[i].data());
    }
  }
  done.length = scalar("length");
  done.rows = scalar("rows");
  done.step = scalar("step");
  done.seed = scalar("seed");
  done.firstStream = launch.arguments[operands.size() + 4];
  auto judgement = replay::judge(dispatchOf(launch.kernel).op, done);
  if (mlir::failed(judgement)) {
    throw std::runtime_error("a dispatch that the replay does not know");
  }
  return judgement->str();
}

Subject Step::subjectOf(const runtime::Launch &launch) {
  const runtime::Kernel &kernel = plan.kernels[size_t(launch.kernel)];
  const runtime::DeviceVariant &variant = kernel.deviceVariants.at(target);
  auto bitcode = artifact.blob(variant.module + "_bitcode");
  Subject subject;
  subject.name = kernel.name;
  subject.ir.assign(bitcode.begin(), bitcode.end());
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    if (kernel.operands[i].written) {
      subject.outputs.emplace_back(arena.get() + launch.arguments[i],
                                   uint64_t(kernel.operands[i].bytes));
    }
  }
  for (size_t i = 0; i < variant.stages.size(); ++i) {
    const runtime::Stage &stage = variant.stages[i];
    emulator::Launch request;
    request.grid = {uint32_t(stage.blocks), 1, 1};
    request.block = {uint32_t(stage.threads), 1, 1};
    request.dynamicSharedBytes = uint64_t(stage.sharedBytes);
    request.arguments = {reinterpret_cast<uint64_t>(arena.get()),
                         reinterpret_cast<uint64_t>(launch.arguments.data())};
    addBuffers(launch, variant.stages.size() == 1, i > 0, request.buffers);
    subject.stages.push_back({stage.symbol, std::move(request)});
  }
  auto before = std::make_shared<std::vector<std::vector<uint8_t>>>();
  subject.prepare = [this, &launch, before] {
    poison(launch);
    const auto &operands = plan.kernels[size_t(launch.kernel)].operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      const uint8_t *at = arena.get() + launch.arguments[i];
      before->emplace_back(at, at + operands[i].bytes);
    }
  };
  subject.judge = [this, &launch, before] { return judge(launch, *before); };
  return subject;
}

void Step::run(const std::function<void(const Subject &)> &visit) {
  std::set<int64_t> seen;
  for (const char *entry : {"initialize", "prepare", "gradient", "update"}) {
    auto found = plan.entries.find(entry);
    for (const runtime::Launch &launch :
         found == plan.entries.end() ? std::vector<runtime::Launch>{} : found->second) {
      Subject subject = subjectOf(launch);
      if (seen.insert(launch.kernel).second) {
        visit(subject);
      }
      for (Subject::Stage &stage : subject.stages) {
        emulator::Report report = emulatorOf(subject, stage.function)
                                      .launch(stage.launch, {.countTraffic = false});
        if (!report.passed()) {
          throw std::runtime_error(subject.name + ": " + report.str());
        }
      }
    }
  }
}

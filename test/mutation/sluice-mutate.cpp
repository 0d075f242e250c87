// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// sluice-mutate: plants faults in the GPU kernels of an artifact, one at a time, and asks the
// emulator and the float64 replay about each. Every kernel is tried at its first launch of a
// training step, on the very memory that it then has.
#include "Trial.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Replay/Replay.h"
#include "sluice/Runtime/Artifact.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Regex.h"

#include <cstring>
#include <iostream>
#include <map>
#include <set>

using namespace sluice;
using namespace sluice::mutation;

namespace {

llvm::cl::opt<std::string> artifactPath(llvm::cl::Positional, llvm::cl::Required,
                                        llvm::cl::desc("<artifact>"));
llvm::cl::opt<std::string> target("target", llvm::cl::init("sm_80"),
                                  llvm::cl::desc("GPU target whose kernels are tried"));
llvm::cl::opt<std::string> only("kernels", llvm::cl::init("."),
                                llvm::cl::desc("Regular expression of kernels to try"));
llvm::cl::opt<unsigned> every("every", llvm::cl::init(1),
                              llvm::cl::desc("Try one fault in so many of a kernel"));
llvm::cl::opt<bool> verbose("all", llvm::cl::desc("Print every fault, not only what survives"));

/// What became of the faults of one kind, or of all.
struct Counts {
  std::map<Fate, int> fates;
  int total() const {
    int sum = 0;
    for (auto [fate, count] : fates) {
      sum += fate == Fate::Invalid ? 0 : count;
    }
    return sum;
  }
  int of(Fate fate) const {
    auto found = fates.find(fate);
    return found == fates.end() ? 0 : found->second;
  }
  void print(const std::string &what) const {
    int caught = of(Fate::Judged) + of(Fate::Wrong);
    std::cout << what << ": " << total() << " faults, " << caught << " caught (" << of(Fate::Judged)
              << " by a rule, " << of(Fate::Wrong) << " by the numbers), " << of(Fate::Changed)
              << " changed bits within bounds, " << of(Fate::Survived) << " changed nothing"
              << std::endl;
  }
};

/// The dispatch of a kernel, for the replay.
class Dispatch {
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

/// One training step on the emulator, kernel by kernel: of a full batch, or of one whose rows are
/// not all there, nor whole. Bounds at the end of memory matter to the first, masks to the second.
class Step {
public:
  Step(const runtime::Artifact &artifact, bool full)
      : artifact(artifact), plan(artifact.plan()),
        arena(static_cast<uint8_t *>(
                  std::aligned_alloc(4096, size_t(plan.memory.arenaBytes + 4095) / 4096 * 4096)),
              std::free) {
    std::memset(arena.get(), 0, size_t(plan.memory.arenaBytes));
    auto constants = artifact.constants();
    std::memcpy(arena.get() + plan.constantsOffset, constants.data(), constants.size());
    scalar("length") = std::max<int64_t>(1, plan.model.context - (full ? 0 : 3));
    scalar("rows") = std::max<int64_t>(1, plan.model.batch - (full ? 0 : 1));
    scalar("step") = 1;
    scalar("seed") = 7;
    const runtime::Region &tokens = plan.inputs.at("tokens");
    for (int64_t i = 0; i < tokens.shape[0] * tokens.rowStride; ++i) {
      auto token = static_cast<int32_t>(i * i * 31 % plan.model.vocabulary);
      std::memcpy(arena.get() + tokens.offset + i * 4, &token, 4);
    }
  }

  /// Calls `visit` with every kernel's first launch, and then runs it.
  void run(const std::function<void(const Subject &)> &visit) {
    std::set<int64_t> seen;
    for (const char *entry : {"initialize", "prepare", "gradient", "update"}) {
      auto found = plan.entries.find(entry);
      for (const runtime::Launch &launch :
           found == plan.entries.end() ? std::vector<runtime::Launch>{} : found->second) {
        Subject subject = subjectOf(launch);
        if (seen.insert(launch.kernel).second && llvm::Regex(only).match(subject.name)) {
          visit(subject);
        }
        for (Subject::Stage &stage : subject.stages) {
          emulator::Report report = emulatorOf(launch.kernel, subject, stage.function)
                                        .launch(stage.launch, {.countTraffic = false});
          if (!report.passed()) {
            throw std::runtime_error(subject.name + ": " + report.str());
          }
        }
      }
    }
  }

private:
  int64_t &scalar(const std::string &name) {
    return *reinterpret_cast<int64_t *>(arena.get() + plan.scalars.at(name).offset);
  }
  emulator::Emulator &emulatorOf(int64_t kernel, const Subject &subject, const std::string &stage);
  Dispatch &dispatchOf(int64_t kernel);
  void poisonPadding(const runtime::Launch &launch);
  Subject subjectOf(const runtime::Launch &launch);
  std::vector<emulator::Buffer> buffersOf(const runtime::Launch &launch, bool later);
  std::string judge(const runtime::Launch &launch, const std::vector<std::vector<uint8_t>> &before);

  const runtime::Artifact &artifact;
  const runtime::Plan &plan;
  std::unique_ptr<uint8_t, decltype(&std::free)> arena;
  std::map<std::string, std::unique_ptr<emulator::Emulator>> emulators;
  std::map<int64_t, std::unique_ptr<Dispatch>> dispatches;
};

} // namespace

emulator::Emulator &Step::emulatorOf(int64_t kernel, const Subject &subject,
                                     const std::string &stage) {
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

std::vector<emulator::Buffer> Step::buffersOf(const runtime::Launch &launch, bool later) {
  using emulator::Writes;
  std::vector<emulator::Buffer> buffers;
  const auto &operands = plan.kernels[size_t(launch.kernel)].operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    bool written = operands[i].written;
    buffers.push_back({"buffer " + std::to_string(i), arena.get() + launch.arguments[i],
                       uint64_t(operands[i].bytes), written ? Writes::AtMostOnce : Writes::None,
                       later || !written});
  }
  for (const char *name : {"length", "rows", "step", "seed"}) {
    buffers.push_back({name, &scalar(name), 8});
  }
  const auto &variant = plan.kernels[size_t(launch.kernel)].deviceVariants.at(target);
  int64_t workspace = variant.workspaceBytes, counters = variant.counters * 4;
  if (counters > 0) {
    buffers.push_back({"counters", arena.get() + launch.arguments.back() - counters,
                       uint64_t(counters), Writes::Any});
  }
  if (workspace > 0) {
    buffers.push_back({"workspace", arena.get() + launch.arguments.back(), uint64_t(workspace),
                       Writes::Any, later});
  }
  buffers.push_back(
      {"arguments", const_cast<int64_t *>(launch.arguments.data()), launch.arguments.size() * 8});
  return buffers;
}

Dispatch &Step::dispatchOf(int64_t kernel) {
  std::unique_ptr<Dispatch> &dispatch = dispatches[kernel];
  if (!dispatch) {
    dispatch = std::make_unique<Dispatch>(artifact, kernel);
  }
  return *dispatch;
}

/// What lies between the rows of operands holds anything: NaN, so that reading it shows.
void Step::poisonPadding(const runtime::Launch &launch) {
  for (auto [i, operand] : llvm::enumerate(dispatchOf(launch.kernel).op->getOperands())) {
    auto type = mlir::cast<mlir::RankedTensorType>(operand.getType());
    if (type.getRank() != 3) {
      continue;
    }
    int64_t bytes = type.getElementTypeBitWidth() / 8, width = type.getDimSize(2),
            stride = dispatch::paddedWidth(width);
    for (int64_t row = 0; row < type.getDimSize(0) * type.getDimSize(1); ++row) {
      std::memset(arena.get() + launch.arguments[i] + (row * stride + width) * bytes, 0xff,
                  size_t((stride - width) * bytes));
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
  poisonPadding(launch);
  const runtime::Kernel &kernel = plan.kernels[size_t(launch.kernel)];
  const runtime::DeviceVariant &variant = kernel.deviceVariants.at(target);
  auto bitcode = artifact.blob(variant.module + "_bitcode");
  Subject subject;
  subject.name = kernel.name;
  subject.ir.assign(bitcode.begin(), bitcode.end());
  std::vector<std::vector<uint8_t>> before;
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    const uint8_t *at = arena.get() + launch.arguments[i];
    before.emplace_back(at, at + kernel.operands[i].bytes);
    if (kernel.operands[i].written) {
      subject.outputs.emplace_back(at, uint64_t(kernel.operands[i].bytes));
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
    request.buffers = buffersOf(launch, i > 0);
    subject.stages.push_back({stage.symbol, std::move(request)});
  }
  subject.judge = [this, &launch, before = std::move(before)] { return judge(launch, before); };
  return subject;
}

/// What became of each fault of each kernel, over all steps.
using Fates = std::map<std::string, std::vector<std::pair<Mutation, Outcome>>>;

static bool isCaught(const Outcome &outcome) {
  return outcome.fate == Fate::Judged || outcome.fate == Fate::Wrong;
}

/// Tries those of a kernel's faults that no step before has caught.
static void tryKernel(const Subject &subject, Fates &fates) {
  Trials trials(subject);
  auto &known = fates[subject.name];
  if (known.empty()) {
    for (auto [i, mutation] : llvm::enumerate(trials.mutations())) {
      if (i % every == 0) {
        known.emplace_back(mutation, Outcome{});
      }
    }
  }
  int caught = 0;
  for (auto &[mutation, outcome] : known) {
    if (!isCaught(outcome)) {
      outcome = trials.run(mutation);
    }
    caught += isCaught(outcome);
  }
  std::cerr << subject.name << ": " << caught << " of " << known.size() << " caught so far\n";
}

static void report(const Fates &fates) {
  Counts all;
  for (const auto &[kernel, tried] : fates) {
    Counts counts;
    for (const auto &[mutation, outcome] : tried) {
      ++counts.fates[outcome.fate];
      ++all.fates[outcome.fate];
      if (verbose || !isCaught(outcome)) {
        std::cout << "  " << name(outcome.fate).str() << ": " << name(mutation.op).str() << " "
                  << mutation.variant << " in " << mutation.function << " at " << mutation.text
                  << (isCaught(outcome) ? ": " + outcome.text : "") << "\n";
      }
    }
    counts.print(kernel);
  }
  all.print("all");
}

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(
      argc, argv, "Plants faults in an artifact's GPU kernels; who finds them?\n");
  try {
    auto artifact = runtime::Artifact::load(artifactPath.getValue());
    Fates fates;
    for (bool full : {true, false}) {
      Step(*artifact, full).run([&](const Subject &subject) { tryKernel(subject, fates); });
    }
    report(fates);
    return fates.empty() ? 1 : 0;
  } catch (const std::exception &error) {
    std::cerr << "sluice-mutate: error: " << error.what() << "\n";
    return 2;
  }
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Step.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Oracle/Oracle.h"

#include <cstring>
#include <set>

using namespace sluice;
using namespace sluice::mutation;

/// The dispatch of a kernel, for the oracle.
class MutationStep::Dispatch {
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

std::vector<Occasion> sluice::mutation::listOccasions(const runtime::Plan &plan) {
  int64_t context = plan.model.context, batch = plan.model.batch, steps = plan.trainingSteps;
  auto extent = [&](int64_t length, int64_t rows) {
    return oracle::Extent{std::max<int64_t>(1, length), std::max<int64_t>(1, rows)};
  };
  std::vector<Occasion> occasions{
      {"full", extent(context, batch), 1},
      {"ragged", extent(context - 4, batch - 1), 2, true},
      {"half", extent(context / 2, batch), 1, true},
      {"third", extent(context / 3 + 1, 1), std::max<int64_t>(1, steps / 2)},
      {"first", extent(context, 1), 3, true},
      {"most", extent(context * 3 / 4 - 1, batch - 1), 4, true},
      {"in place", extent(context - 1, batch), 1, true, true},
      {"single", extent(1, 1), steps + 1}};
  // Copies are unrolled: each compares different rows with the length. These lengths end sequences
  // in the rows of each copy, 8 rows apart.
  for (int64_t length = 5; length < context; length += 8) {
    occasions.push_back({"length " + std::to_string(length), extent(length, batch), 1, true});
  }
  return occasions;
}

MutationStep::MutationStep(const runtime::Artifact &artifact, std::string target)
    : artifact(artifact), plan(artifact.plan()), target(std::move(target)),
      occasions(listOccasions(plan)),
      arena(static_cast<uint8_t *>(
                std::aligned_alloc(4096, size_t(plan.memory.arenaBytes + 4095) / 4096 * 4096)),
            std::free) {
  std::memset(arena.get(), 0, size_t(plan.memory.arenaBytes));
  auto constants = artifact.constants();
  std::memcpy(arena.get() + plan.constantsOffset, constants.data(), constants.size());
  setScalars(occasions.front());
  const runtime::Region &tokens = plan.inputs.at("tokens");
  for (int64_t i = 0; i < tokens.shape[0] * tokens.rowStride; ++i) {
    // In every fragment of columns for every row of a thread; the first and the last token too.
    auto last = static_cast<int32_t>(plan.model.vocabulary - 1);
    int32_t token = i % 31 == 3 ? last : static_cast<int32_t>(i * 97 % plan.model.vocabulary);
    std::memcpy(arena.get() + tokens.offset + i * 4, &token, 4);
  }
}

MutationStep::~MutationStep() = default;

int64_t &MutationStep::scalar(const std::string &name) {
  return *reinterpret_cast<int64_t *>(arena.get() + plan.scalars.at(name).offset);
}

void MutationStep::setScalars(const Occasion &occasion) {
  scalar("length") = occasion.extent.length;
  scalar("rows") = occasion.extent.rows;
  scalar("step") = occasion.step;
  scalar("seed") = 7;
}

MutationStep::Dispatch &MutationStep::getDispatch(int64_t kernel) {
  std::unique_ptr<Dispatch> &dispatch = dispatches[kernel];
  if (!dispatch) {
    dispatch = std::make_unique<Dispatch>(artifact, kernel);
  }
  return *dispatch;
}

/// Bytes of a result that the launch may write: its valid rows, each byte once if this is the
/// kernel's only stage; else at most once per stage, since stages share results.
void MutationStep::addResult(const Visit &visit, size_t operand, unsigned result, bool later,
                             std::vector<emulator::Buffer> &buffers) {
  using emulator::Writes;
  uint8_t *data = arena.get() + (*visit.arguments)[operand];
  std::string name = "buffer " + std::to_string(operand);
  bool only = visit.kernel.deviceVariants.at(target).stages.size() == 1;
  buffers.push_back(
      {name, data, uint64_t(visit.kernel.operands[operand].bytes), Writes::None, later});
  for (oracle::Bytes part : oracle::writtenBytes(visit.op, result, visit.occasion.extent)) {
    buffers.push_back({name, data + part.offset, uint64_t(part.count),
                       only ? Writes::Once : Writes::AtMostOnce, later});
  }
}

/// Bytes of an operand that the launch may read; the others count as unwritten.
void MutationStep::addOperand(const Visit &visit, size_t operand,
                              std::vector<emulator::Buffer> &buffers) {
  uint8_t *data = arena.get() + (*visit.arguments)[operand];
  std::string name = "buffer " + std::to_string(operand);
  int64_t blocks = visit.kernel.deviceVariants.at(target).stages.front().blocks;
  auto bytes = uint64_t(visit.kernel.operands[operand].bytes);
  buffers.push_back({name, data, bytes, emulator::Writes::None, false});
  for (oracle::Bytes part :
       oracle::readBytes(visit.op, unsigned(operand), visit.occasion.extent, blocks)) {
    uint64_t count = std::min(uint64_t(part.count), bytes - uint64_t(part.offset));
    buffers.push_back({name, data + part.offset, count});
  }
}

void MutationStep::addBuffers(const Visit &visit, bool later,
                              std::vector<emulator::Buffer> &buffers) {
  const std::vector<int64_t> &arguments = *visit.arguments;
  const auto &operands = visit.kernel.operands;
  unsigned results = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].written) {
      addResult(visit, i, results++, later, buffers);
    } else {
      addOperand(visit, i, buffers);
    }
  }
  for (const char *name : {"length", "rows", "step", "seed"}) {
    buffers.push_back({name, &scalar(name), 8});
  }
  const runtime::DeviceVariant &variant = visit.kernel.deviceVariants.at(target);
  int64_t workspace = variant.workspaceBytes;
  if (auto [counters, bytes] = getCounters(visit); bytes > 0) {
    buffers.push_back({"counters", const_cast<uint8_t *>(counters), bytes, emulator::Writes::Any});
  }
  if (workspace > 0) {
    buffers.push_back({"workspace", arena.get() + arguments.back(), uint64_t(workspace),
                       emulator::Writes::AtMostOnce, later});
  }
  buffers.push_back({"arguments", const_cast<int64_t *>(arguments.data()), arguments.size() * 8});
}

/// Fills bytes that no result may depend on with NaN: results that share no memory with operands,
/// padding, and invalid rows. Missing writes of zeros then show.
void MutationStep::poison(const Visit &visit) {
  const auto &operands = visit.kernel.operands;
  const std::vector<int64_t> &arguments = *visit.arguments;
  auto isOperand = [&](size_t i) {
    return llvm::any_of(llvm::seq(operands.size()), [&](size_t j) {
      return !operands[j].written && arguments[i] < arguments[j] + operands[j].bytes &&
             arguments[j] < arguments[i] + operands[i].bytes;
    });
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].written && !isOperand(i)) {
      std::memset(arena.get() + arguments[i], 0xff, size_t(operands[i].bytes));
    }
  }
  for (unsigned i = 0; i < visit.op->getNumOperands(); ++i) {
    for (oracle::Bytes part : oracle::ignoredBytes(visit.op, i, visit.occasion.extent)) {
      std::memset(arena.get() + arguments[i] + part.offset, 0xff, size_t(part.count));
    }
  }
}

/// Replaces all rows by the first, and every row of the head's weights by that row with its sign
/// changed: logits are its square, negated. e^(0 - lse) of an absent token is then infinite.
void MutationStep::lowerLogits(const Visit &visit) {
  auto head = llvm::cast<dispatch::CrossEntropyOp>(visit.op);
  auto weight = llvm::cast<mlir::RankedTensorType>(head.getWeight().getType());
  auto *row = reinterpret_cast<uint16_t *>(arena.get() + (*visit.arguments)[0]);
  auto *line = reinterpret_cast<uint16_t *>(arena.get() + (*visit.arguments)[1]);
  int64_t width = weight.getDimSize(1), stride = dispatch::paddedWidth(width);
  for (int64_t i = 1; i < head.getDomain().getLaunchRows(); ++i) {
    std::copy_n(row, width, row + i * stride);
  }
  for (int64_t i = 0; i < weight.getNumElements(); ++i) {
    constexpr uint16_t sign = 0x8000;
    line[i] = row[i % weight.getDimSize(1)] ^ sign;
  }
}

/// Counters of arriving blocks, which are zero again after each launch; with their bytes.
std::pair<const uint8_t *, uint64_t> MutationStep::getCounters(const Visit &visit) const {
  int64_t count = visit.kernel.deviceVariants.at(target).counters;
  int64_t bytes = count * int64_t(sizeof(int32_t));
  return {arena.get() + visit.arguments->back() - bytes, uint64_t(bytes)};
}

std::string MutationStep::compareWithOracle(const Visit &visit,
                                            const std::vector<std::vector<uint8_t>> &before) {
  auto [counters, counterBytes] = getCounters(visit);
  if (std::any_of(counters, counters + counterBytes, [](uint8_t byte) { return byte != 0; })) {
    return "expected counters of blocks that are zero after the launch, found others";
  }
  const auto &operands = visit.kernel.operands;
  oracle::OracleLaunch done;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].written) {
      done.results.push_back(arena.get() + (*visit.arguments)[i]);
    } else {
      done.operands.push_back(before[i].data());
    }
  }
  done.length = visit.occasion.extent.length;
  done.rows = visit.occasion.extent.rows;
  done.step = visit.occasion.step;
  done.seed = scalar("seed");
  done.firstStream = (*visit.arguments)[operands.size() + 4];
  auto judgement = oracle::judge(visit.op, done);
  if (mlir::failed(judgement)) {
    throw std::runtime_error("a dispatch that the oracle does not know");
  }
  return judgement->str();
}

/// In place, each result shares the memory of the first free operand of its type.
MutationStep::Visit MutationStep::getVisit(const runtime::Launch &launch,
                                           const Occasion &occasion) {
  Visit visit{occasion, plan.kernels[size_t(launch.kernel)], getDispatch(launch.kernel).op, {}};
  std::vector<int64_t> arguments = launch.arguments;
  auto rows = llvm::dyn_cast<dispatch::RowsOp>(visit.op);
  std::set<unsigned> taken;
  for (unsigned i = 0; occasion.inPlace && rows && i < rows->getNumResults(); ++i) {
    for (unsigned j = 0; j < rows->getNumOperands(); ++j) {
      auto access = llvm::cast<dispatch::AccessAttr>(rows.getAccesses()[j]);
      bool fits =
          access.isIdentity() && rows->getOperand(j).getType() == rows->getResult(i).getType();
      if (fits && taken.insert(j).second) {
        arguments[rows->getNumOperands() + i] = arguments[j];
        break;
      }
    }
  }
  visit.arguments = std::make_shared<const std::vector<int64_t>>(std::move(arguments));
  return visit;
}

Subject MutationStep::getSubject(const Visit &visit) {
  const runtime::PlanKernel &kernel = visit.kernel;
  const runtime::DeviceVariant &variant = kernel.deviceVariants.at(target);
  auto bitcode = artifact.blob(variant.module + "_bitcode");
  Subject subject;
  subject.name = kernel.name;
  subject.ir.assign(bitcode.begin(), bitcode.end());
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    if (kernel.operands[i].written) {
      subject.outputs.emplace_back(arena.get() + (*visit.arguments)[i],
                                   uint64_t(kernel.operands[i].bytes));
    }
  }
  subject.outputs.emplace_back(getCounters(visit));
  for (const runtime::DeviceStage &stage : variant.stages) {
    emulator::EmulatedLaunch request;
    request.grid = {uint32_t(stage.blocks), 1, 1};
    request.block = {uint32_t(stage.threads), 1, 1};
    request.dynamicSharedBytes = uint64_t(stage.sharedBytes);
    request.arguments = {reinterpret_cast<uint64_t>(arena.get()),
                         reinterpret_cast<uint64_t>(visit.arguments->data())};
    addBuffers(visit, !subject.stages.empty(), request.buffers);
    std::shared_ptr<emulator::Emulator> &made = emulators[stage.symbol];
    made = made ? made : makeStage(subject.ir, stage.symbol);
    subject.stages.push_back({stage.symbol,
                              std::move(request),
                              {.scalars = unsigned(kernel.operands.size()),
                               .lengths = plan.model.context,
                               .rows = plan.model.batch},
                              made});
  }
  auto before = std::make_shared<std::vector<std::vector<uint8_t>>>();
  subject.prepare = [this, visit, before] {
    setScalars(visit.occasion);
    poison(visit);
    visit.occasion.negative ? lowerLogits(visit) : void();
    for (size_t i = 0; i < visit.kernel.operands.size(); ++i) {
      const uint8_t *at = arena.get() + (*visit.arguments)[i];
      before->emplace_back(at, at + visit.kernel.operands[i].bytes);
    }
  };
  subject.check = [this, visit, before] { return compareWithOracle(visit, *before); };
  return subject;
}

/// If no row depends on lengths, only the step number matters. Otherwise some lengths and batches
/// put the last valid row just before the first of a block of 64: that block has no rows, and one
/// more row would give it one.
std::vector<Occasion> MutationStep::occasionsFor(const runtime::Launch &launch) {
  auto domain = getDispatch(launch.kernel).op->getAttrOfType<dispatch::DomainAttr>("domain");
  std::vector<Occasion> result;
  for (const Occasion &occasion : occasions) {
    if (domain.getFactor() != 0 || !occasion.ofLengths) {
      result.push_back(occasion);
    }
  }
  if (llvm::isa<dispatch::CrossEntropyOp>(getDispatch(launch.kernel).op)) {
    result.push_back(result.front());
    result.back().name = "negative";
    result.back().negative = true;
  }
  int64_t positions = domain.getPositions(), batch = plan.model.batch;
  for (int64_t first = 64; domain.getFactor() != 0 && first < positions * batch; first += 64) {
    int64_t length = first % positions * domain.getFactor(), rows = first / positions + 1;
    if (length > 0) {
      result.push_back({"length " + std::to_string(length) + " of " + std::to_string(rows),
                        {length, rows},
                        1,
                        true});
    }
  }
  return result;
}

void MutationStep::run(const std::function<void(const Occasion &, const Subject &)> &visit) {
  std::set<int64_t> seen;
  for (const char *entry : {"initialize", "prepare", "evaluate", "predict", "gradient", "update"}) {
    auto found = plan.entries.find(entry);
    for (const runtime::Launch &launch :
         found == plan.entries.end() ? std::vector<runtime::Launch>{} : found->second) {
      bool isFirst = seen.insert(launch.kernel).second;
      for (const Occasion &occasion : isFirst ? occasionsFor(launch) : std::vector<Occasion>()) {
        visit(occasion, getSubject(getVisit(launch, occasion)));
      }
      Subject subject = getSubject(getVisit(launch, occasions.front()));
      for (Subject::SubjectStage &stage : subject.stages) {
        emulator::Report report = stage.emulator->launch(stage.launch, {.countTraffic = false});
        if (!report.passed()) {
          throw std::runtime_error(subject.name + ": " + report.str());
        }
      }
    }
  }
}

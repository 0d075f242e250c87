// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The road from a spec to an artifact.
#include "Budget.h"
#include "Compilation.h"
#include "Factors.h"
#include "Failures.h"
#include "FlagBlame.h"
#include "Limits.h"
#include "ModelIR.h"
#include "RowLogits.h"
#include "SpecFacts.h"
#include "sluice/Certificate/Certificate.h"
#include "sluice/Conversion/ReadSpec.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Explain/SpecFix.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/WorkBudget.h"
#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Step/DeriveStep.h"
#include "sluice/Support/Outputs.h"
#include "sluice/Support/Text.h"
#include "sluice/Target/CPU/Object/Object.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

/// Before the work, since a compile may take seconds.
std::optional<Outcome> Compilation::checkOutput() const {
  if (!request.emit.empty() || request.inMemory) {
    return std::nullopt;
  }
  runtime::checkOutputs({{"--output", request.output, runtime::FileKind::Artifact}}, {request.spec},
                        /*force=*/true);
  return std::nullopt;
}

std::optional<Outcome> Compilation::chooseTargets() {
  for (const std::string &name : request.targets) {
    if (!addTarget(name, targets)) {
      return badInput("--target: expected " + targetNames.str() + ", found " + quote(name) +
                      "; name one of these, or leave it out to compile for this machine's CPU");
    }
  }
  return std::nullopt;
}

std::optional<Outcome> Compilation::checkCausal() {
  WorkBudget budget(request.operations);
  CausalVerdict verdict;
  {
    WorkScope scope(budget);
    verdict = checkCausality(variants);
  }
  blameSettings(verdict, text, request.settings, [&] {
    spec::Diagnostic ignored;
    return request.text ? parseSpec(context, *request.text, request.spec, ignored)
                        : parseSpecFile(context, request.spec, ignored);
  });
  bool isOpen = verdict.kind == CausalVerdict::Kind::NotProved; // neither a proof nor a leak
  const char *mark = isOpen ? "not proved" : "leaky";
  if (!verdict.isProved() && !request.allowLeak) {
    spec::Diagnostic ignored;
    auto spec =
        isModelIR(request.spec) ? std::nullopt : parseSpec(context, text, request.spec, ignored);
    if (spec) {
      verdict.dropRemedy();
      findFix(*spec, verdict);
    }
    return Outcome{1, "",
                   verdict.format() +
                       "\nnothing was compiled; fix the spec, or pass --allow-leak; the artifact "
                       "stays marked as " +
                       mark,
                   true};
  }
  if (!verdict.isProved()) {
    notice += (notice.empty() ? "" : "\n") + std::string("warning: ") +
              spec::toString(verdict.place) + ": " + verdict.message +
              "; compiled because of --allow-leak, and the artifact is marked as " + mark;
  }
  // Certificates are about specs; a leak has none.
  bool certified = verdict.isProved() && !isModelIR(request.spec);
  proof = {verdict.isProved() ? "proved"
           : isOpen           ? "not-proved"
                              : "leak-allowed",
           verdict.modes, certified ? formatCertificate(variants, text, request.operations) : ""};
  return std::nullopt;
}

/// Prepares the program of a leaky spec, scored against targets that it does not read.
void Compilation::prepareReplay() {
  OpBuilder b(&context);
  ModuleOp only = *variants.front().module;
  only->setAttr("sluice.batch", b.getI64IntegerAttr(request.replay->batch));
  only.walk([&](CrossEntropyOp loss) { loss.setOffset(request.replay->targetOffset); });
  forceBits(only, request.replay->bits);
  proof = {"leak-allowed", {}};
}

/// Compiler talk never reaches a user: it goes into a reproducer beside the artifact.
Outcome Compilation::internalError(const std::string &what) {
  std::string path = (request.output.empty() ? request.spec : request.output) + ".reproducer.mlir";
  std::string file = "// sluice compile " + request.spec + "\n";
  for (StringRef line : llvm::split(diagnostics, '\n')) {
    file += ("// " + line + "\n").str();
  }
  Outcome written = explainFailures([&] {
    runtime::replaceFile(path, runtime::asBytes(file + imported));
    return Outcome();
  });
  std::string where = written.status == 0 ? "please report it with " + showPath(path)
                                          : "no reproducer could be written: " + written.message;
  return {3, "", "internal error: " + what + "; this is a defect of sluice, " + where};
}

/// Returns the numbered message of an op of model IR, with its place; empty if there is none.
static std::string findRefusal(StringRef diagnostics) {
  static const llvm::Regex place("^loc\\(\"(.*)\":([0-9]+):([0-9]+)\\): (S-[0-9]+: .*)$");
  for (StringRef line : llvm::split(diagnostics, '\n')) {
    SmallVector<StringRef> parts;
    if (place.match(line, &parts)) {
      return llvm::join_items(":", parts[1], parts[2], parts[3], " ") + parts[4].str();
    }
  }
  return "";
}

std::optional<Outcome> Compilation::runPass(std::unique_ptr<Pass> pass) {
  PassManager manager(&context);
  std::string name = pass->getArgument().str();
  manager.addPass(std::move(pass));
  if (failed(manager.run(*module))) {
    std::string refusal = isModelIR(request.spec) ? findRefusal(diagnostics) : "";
    return refusal.empty() ? internalError() : badInput(refusal);
  }
  return watchPass(name);
}

/// A dependence that a pass adds is a defect of the pass.
std::optional<Outcome> Compilation::watchPass(const std::string &name) {
  if (watch) {
    if (std::optional<std::string> added = watch->find(*module, name)) {
      return internalError(*added);
    }
  }
  return std::nullopt;
}

std::string Compilation::print(Operation *op) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  op->print(stream, request.emitLocations ? flags.enableDebugInfo().useLocalScope() : flags);
  stream << "\n";
  return text;
}

static bool readsComputeCopies(ModuleOp module) {
  return module
      .walk([](ReadOp read) {
        return getComputeType(read.getValue()).isBF16() ? WalkResult::interrupt()
                                                        : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Returns true if every dispatch of a step would run over rows of some value's schedule: a lazy
/// value that a contraction or attention reads has no schedule.
static bool hasScheduledReads(func::FuncOp predict) {
  WalkResult result = predict.walk([](FusionInterface op) {
    FusionRole role = op.getFusionRole();
    bool readsStored = role == FusionRole::Contraction || role == FusionRole::Alone;
    return readsStored && llvm::any_of(op->getOperands(), isStoredNowhere) ? WalkResult::interrupt()
                                                                           : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

/// The incremental step, where there is one: else generation recomputes.
std::optional<Outcome> Compilation::addStep() {
  auto predict = module->lookupSymbol<func::FuncOp>("predict");
  StepRefusal refusal;
  if (isOther || request.generationRows == 0) {
    return std::nullopt; // one step an artifact
  }
  bool isOfGroups = module->getOperation()->hasAttr("sluice.group"); // nothing is generated
  if (proof.verdict != "proved" || !predict || isOfGroups || !hasScheduledReads(predict) ||
      !deriveStep(predict, refusal, request.operations)) {
    return std::nullopt;
  }
  // The watch compares whole sequences; reads of a step are proved by the step.
  std::optional<LoweringWatch> paused;
  std::swap(paused, watch);
  auto failure = runPass(createDeriveStep({request.operations}));
  std::swap(paused, watch);
  if (!failure) {
    eraseNames(module->lookupSymbol("step"));
  }
  return failure;
}

/// The derived step, without the functions that it was derived from.
Outcome Compilation::emitStep() {
  StepRefusal refusal;
  if (!deriveStep(module->lookupSymbol<func::FuncOp>("predict"), refusal, request.operations)) {
    return badInput(spec::toString(getOpLocation(refusal.op)) +
                    ": expected a model that a step can be derived of, found that " +
                    refusal.message);
  }
  if (auto failure = runPass(createDeriveStep({request.operations}))) {
    return *failure;
  }
  for (auto function : llvm::to_vector(module->getOps<func::FuncOp>())) {
    if (function.getSymName() != "step") {
      function.erase();
    }
  }
  return {0, print(*module), ""};
}

/// Attention by hashes: any, or one whose rows are sorted by them.
static HashedAttentionOp findHashed(ModuleOp module, bool isSorted = false) {
  HashedAttentionOp found;
  module.walk([&](HashedAttentionOp op) { found = isSorted && !op.getSorted() ? found : op; });
  return found;
}

/// Labels that predictions read; null where losses alone do.
static LabelsOp findReadLabels(ModuleOp module) {
  LabelsOp found;
  if (auto predict = module.lookupSymbol<func::FuncOp>("predict")) {
    predict.walk([&](LabelsOp op) { found = op; });
  }
  return found;
}

static bool hasSoftTargets(ModuleOp module) {
  bool found = false;
  module.walk([&](CrossEntropyOp op) { found |= !op.getTarget().empty(); });
  return found;
}

/// Model IR to dispatches, stopping where a stage is asked for.
std::optional<Outcome> Compilation::lowerModel() {
  if (emits("model")) {
    return Outcome{0, print(*module), ""};
  }
  if (auto hashed = findHashed(*module); request.verifyEachCausality && hashed) {
    return badInput(spec::toString(getOpLocation(hashed)) +
                    ": --verify-each-causality: expected rows that masks or shifts find, found "
                    "attention by hashes, whose reads no pass can be compared by; leave it out");
  }
  if (request.verifyEachCausality) {
    watch.emplace(*module);
  }
  if (hasSoftTargets(*module)) {
    if (auto failure = runPass(createExpandSoftTargets())) {
      return failure;
    }
  }
  // Nothing to convert where every weight is read as f32.
  if (readsComputeCopies(*module)) {
    if (auto failure = runPass(createConvertFactors())) {
      return failure;
    }
  }
  if (emits("step")) {
    return emitStep();
  }
  if (auto failure = runPass(createDifferentiate())) {
    return failure;
  }
  if (emits("gradient")) {
    LoweringWatch::finish(*module);
    return Outcome{0, print(*module), ""};
  }
  if (HashedAttentionOp sorted = findHashed(*module, /*isSorted=*/true)) {
    return badInput(
        spec::toString(getOpLocation(sorted)) +
        ": expected hashes whose ranks count earlier rows, found rows sorted by hashes, "
        "which are not compiled, as a row then reads what later rows decide; leave out "
        "\"causal\": false");
  }
  if (LabelsOp read = findReadLabels(*module); read && read.getNumbers()) {
    return badInput(
        spec::toString(getOpLocation(read)) +
        ": expected numbers that a loss alone reads, found an embedding of the input \"" +
        read.getLabel().str() +
        "\", which is not compiled, as generation has none; give it the role \"target\" "
        "or \"weight\"");
  } else if (read) {
    return badInput(spec::toString(getOpLocation(read)) +
                    ": expected labels that a loss alone reads, found boundaries by labels, which "
                    "are not compiled, as evaluation and generation have none; give them a "
                    "\"predictor\" that learns the labels");
  }
  if (auto failure = addStep()) {
    return failure;
  }
  if (auto failure =
          runPass(createFormDispatches({request.generationRows, /*keysApart=*/targets.gpus.empty(),
                                        targets.mostSumParts(), keepMaps}))) {
    return failure;
  }
  if (auto failure = runPass(createBuildEntries())) {
    return failure;
  }
  if (auto failure = runPass(createSeparatePlaces())) {
    return failure;
  }
  // With a budget, kernels come first: dispatches are repeated by what these cost and need.
  return request.memoryBudget ? std::nullopt : finishDispatches();
}

/// Every variant down to dispatches, then one module of all.
std::optional<Outcome> Compilation::lowerVariants() {
  std::string printed;
  for (ImportedVariant &variant : variants) {
    isOther = &variant != &variants.front();
    module = std::move(variant.module);
    if (auto outcome = lowerModel()) {
      if (outcome->status != 0) {
        return outcome;
      }
      printed += (isOther ? "// -----\n" : "") + outcome->output;
    }
    variant.module = std::move(module);
  }
  if (!printed.empty()) {
    return Outcome{0, printed, ""};
  }
  module = mergeVariants(variants);
  return module ? std::nullopt : std::optional(internalError("factors do not share their memory"));
}

std::optional<Outcome> Compilation::finishDispatches() {
  LoweringWatch::finish(*module);
  return emits("dispatches") ? std::optional(Outcome{0, print(*module), ""}) : std::nullopt;
}

/// Dispatches that run again, for the budget.
std::optional<Outcome> Compilation::keepToBudget(KernelSet &kernels,
                                                 std::optional<MemoryBudget> &budget) {
  if (!request.memoryBudget) {
    return std::nullopt;
  }
  FailureOr<Recomputation> made = recomputeWithin(*module, kernels, *request.memoryBudget);
  if (failed(made)) {
    return internalError();
  }
  if (made->arenaBytes > *request.memoryBudget) {
    least = made->arenaBytes;
    return badInput(sizesPlace + ": " + explainBudget(*made, *request.memoryBudget));
  }
  if (!made->copies.empty()) {
    notice += (notice.empty() ? "" : "\n") + describeRecomputation(*made, *module, kernels);
  }
  budget = {*request.memoryBudget, made->fullBytes, made->launches, made->operations};
  if (auto failure = watchPass("sluice-recompute")) {
    return failure;
  }
  return finishDispatches();
}

/// CPU objects, and what GPUs get.
std::optional<Outcome> Compilation::lowerKernels(KernelSet &kernels,
                                                 std::vector<std::string> &objects,
                                                 std::vector<Blob> &blobs) {
  SmallVector<cpu::ObjectRequest> requests;
  for (size_t i = 0; i < targets.cpus.size(); ++i) {
    requests.push_back({*kernels.modules[i], targets.cpus[i]});
  }
  llvm::Expected<KernelCacheSetting> setting = findKernelCache(request.kernelCache);
  if (!setting) {
    return badInput(llvm::toString(setting.takeError()));
  }
  KernelCache cache(setting->folder, setting->mostBytes);
  auto reportKernels = [&](size_t done, size_t count) {
    report("compiling kernels (" + std::to_string(done) + " of " + std::to_string(count) + ")",
           double(done) / double(count));
  };
  report(targets.gpus.empty() ? "compiling kernels" : "compiling kernels for GPUs");
  FailureOr<std::vector<Blob>> code = lowerDeviceKernels(kernels, cache);
  if (failed(code) || failed(cpu::lowerToObjects(requests, objects, cache, reportKernels))) {
    return internalError();
  }
  if (std::string problem = cache.getProblem(); setting->isNamed && !problem.empty()) {
    notice += (notice.empty() ? "" : "\n") + problem + "; compiled without storing them";
  }
  blobs = std::move(*code);
  return std::nullopt;
}

/// A product that was measured to be faster in the library is named so; its kernel stays.
void Compilation::chooseLibraries(KernelSet &kernels) const {
  for (KernelRecord &record : kernels.records) {
    for (KernelRecord::DeviceVariant &variant : record.deviceVariants) {
      for (const LibraryProduct &tuned : request.libraryProducts) {
        cuda::Product product{tuned.rows, tuned.columns, tuned.depth, tuned.byInput, tuned.isF32};
        if (record.product && record.product->isSameShape(product) &&
            tuned.target == variant.target->chip) {
          variant.library = {tuned.version, tuned.algorithm};
        }
      }
    }
  }
}

Outcome Compilation::generate() {
  report("generating kernels");
  std::string unsupported;
  FailureOr<KernelSet> kernels = generateKernels(*module, targets, unsupported);
  if (failed(kernels)) {
    return unsupported.empty() ? internalError() : badInput(unsupported);
  }
  if (std::string excess = findExcess(*module, *kernels); !excess.empty()) {
    return badInput(excess);
  }
  chooseLibraries(*kernels);
  std::optional<MemoryBudget> budget;
  if (auto outcome = keepToBudget(*kernels, budget)) {
    return *outcome;
  }
  if (emits("kernels")) {
    std::string text;
    for (auto &generated : kernels->modules) {
      text += print(*generated);
    }
    for (auto &generated : kernels->deviceModules) {
      text += print(*generated);
    }
    return {0, text, ""};
  }
  nameBuckets(*module);
  FailureOr<MemoryPlan> memory =
      planMemory(*module, kernels->workspaceBytes(), kernels->counterBytes());
  if (failed(memory)) {
    return internalError();
  }
  memory->budget = budget;
  if (std::string excess = findExcess(*memory); !excess.empty()) {
    return badInput(sizesPlace + ": " + excess);
  }
  emitPlan(*module, *kernels, *memory);
  if (failed(verify(*module))) {
    return internalError();
  }
  if (emits("plan")) {
    for (auto func : llvm::to_vector(module->getOps<func::FuncOp>())) {
      func.erase();
    }
    return {0, print(*module), ""};
  }
  std::vector<std::string> objects;
  std::vector<Blob> blobs;
  if (auto outcome = lowerKernels(*kernels, objects, blobs)) {
    return *outcome;
  }
  std::string plan;
  llvm::raw_string_ostream(plan) << planToJson(*module, *kernels, *memory,
                                               {text, trainsOnTokens, facts}, proof, targets);
  // A compiled plan must load.
  if (std::string mistake = runtime::findPlanMistake(plan); !mistake.empty()) {
    return internalError("the runtime would refuse the plan" + mistake);
  }
  report("linking the artifact", 1);
  llvm::Expected<std::string> artifact =
      linkArtifact(plan, makeConstants(*module, *memory), objects, blobs);
  if (!artifact) {
    return {1, "", llvm::toString(artifact.takeError())};
  }
  if (request.inMemory) {
    return {0, std::move(*artifact), ""};
  }
  runtime::replaceFile(request.output, runtime::asBytes(*artifact));
  return {0, "", notice};
}

Outcome Compilation::run() {
  if (auto outcome = chooseTargets()) {
    return *outcome;
  }
  if (!request.emit.empty() && !llvm::is_contained(emitStages(), request.emit)) {
    return badInput("--emit: expected one of " + llvm::join(emitStages(), ", ") + ", found " +
                    quote(request.emit));
  }
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
    llvm::raw_string_ostream(diagnostics)
        << (place ? Location(place) : diagnostic.getLocation()) << ": " << diagnostic << "\n";
    return success();
  });
  report("reading the spec");
  if (auto outcome = readModel()) {
    return *outcome;
  }
  trainsOnTokens = driver::trainsOnTokens(*variants.front().module);
  for (const ImportedVariant &variant : variants) {
    imported += (imported.empty() ? "" : "// -----\n") + print(*variant.module);
  }
  if (request.replay) {
    prepareReplay();
  } else if (request.everyRow) {
    proof = {"leak-allowed", {}};
    if (failed(keepEveryRow(*variants.front().module, *request.everyRow))) {
      return internalError();
    }
  } else {
    report("proving causality");
    if (auto outcome = checkCausal()) {
      return *outcome;
    }
  }
  if (auto outcome = checkOutput()) {
    return *outcome;
  }
  report("lowering the model");
  if (auto outcome = lowerVariants()) {
    return *outcome;
  }
  return generate();
}

const std::vector<std::string> &driver::emitStages() {
  static const std::vector<std::string> stages{"spec",       "model",   "step", "gradient",
                                               "dispatches", "kernels", "plan"};
  return stages;
}

bool Compilation::hasBf16() {
  return module
      ->walk([](Operation *op) {
        bool isBf16 = llvm::any_of(op->getResultTypes(), [](Type type) {
          auto tensor = dyn_cast<RankedTensorType>(type);
          return tensor && tensor.getElementType().isBF16();
        });
        return isBf16 ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Maps that are made again take less memory in all, but more at once where they are made: a budget
/// that this misses may be met by keeping them. In bf16 that would move gradients.
static Outcome compileWithin(const CompileRequest &request) {
  Compilation made(request, /*keepMaps=*/false);
  Outcome outcome = made.run();
  if (!made.leastArena() || made.hasBf16()) {
    return outcome;
  }
  Compilation kept(request, /*keepMaps=*/true);
  Outcome other = kept.run();
  return kept.leastArena().value_or(0) < *made.leastArena() ? other : outcome;
}

Outcome driver::compile(const CompileRequest &request) {
  return explainFailures([&] { return compileWithin(request); });
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pipeline from a spec to an artifact.
#include "AttentionMap.h"
#include "Budget.h"
#include "Compilation.h"
#include "Factors.h"
#include "Failures.h"
#include "FlagBlame.h"
#include "Limits.h"
#include "ModelIR.h"
#include "RowLogits.h"
#include "Shapes.h"
#include "SpecFacts.h"
#include "sluice/Certificate/Certificate.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Rejection.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Explain/SpecFix.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Outputs.h"
#include "sluice/Support/Text.h"
#include "sluice/Support/WorkBudget.h"
#include "sluice/Target/Artifact/Pipeline.h"
#include "sluice/Target/CPU/Object/Object.h"
#include "sluice/Target/PyTorch/PyTorch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

/// Outcome of a compilation that another thread cancelled.
static const Outcome cancelled = {1, "", "the compilation was cancelled"};

/// Checks the output before the compilation, which may take seconds.
std::optional<Outcome> Compilation::checkOutput() const {
  if (!request.emit.empty() || request.inMemory) {
    return std::nullopt;
  }
  checkOutputs({{"--output", request.output, FileKind::Artifact}}, {request.spec},
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
    verdict = checkCausality(input.variants);
  }
  blameSettings(verdict, input.text, request.settings, [&] {
    spec::Diagnostic ignored;
    return request.text ? parseSpec(context, *request.text, request.spec, ignored)
                        : parseSpecFile(context, request.spec, ignored);
  });
  bool isOpen = verdict.kind == VerdictKind::NotProved; // neither a proof nor a leak
  const char *mark = isOpen ? "not proved" : "leaky";
  if (!verdict.isProved() && !request.allowLeak) {
    spec::Diagnostic ignored;
    auto spec = isModelIR(request.spec) ? std::nullopt
                                        : parseSpec(context, input.text, request.spec, ignored);
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
    input.notice += (input.notice.empty() ? "" : "\n") + std::string("warning: ") +
                    spec::toString(verdict.place) + ": " + verdict.message +
                    "; compiled because of --allow-leak, and the artifact is marked as " + mark;
  }
  // Only specs have certificates, and only without a leak.
  bool certified = verdict.isProved() && !isModelIR(request.spec);
  proof = {verdict.isProved() ? "proved"
           : isOpen           ? "not-proved"
                              : "leak-allowed",
           verdict.modes,
           certified ? formatCertificate(input.variants, input.text, request.operations) : ""};
  return std::nullopt;
}

/// Prepares the program of a leaky spec, scored against targets that it does not read.
void Compilation::prepareReplay() {
  OpBuilder b(&context);
  ModuleOp only = *input.variants.front().module;
  setFact<SluiceDialect::BatchAttrHelper>(only, b.getI64IntegerAttr(request.replay->batch));
  only.walk([&](CrossEntropyOp loss) { loss.setOffset(request.replay->targetOffset); });
  forceBits(only, request.replay->bits);
  proof = {"leak-allowed", {}};
}

/// Writes compiler diagnostics to a reproducer next to the artifact; they never reach a user.
Outcome Compilation::internalError(const std::string &what) {
  if (isCancelled()) {
    return cancelled;
  }
  std::string path = (request.output.empty() ? request.spec : request.output) + ".reproducer.mlir";
  std::string file = "// sluice compile " + request.spec + "\n";
  for (StringRef line : llvm::split(diagnostics, '\n')) {
    file += ("// " + line + "\n").str();
  }
  Outcome written = explainFailures([&] {
    replaceFile(path, asBytes(file + imported));
    return Outcome();
  });
  std::string where = written.status == 0 ? "please report it with " + showPath(path)
                                          : "no reproducer could be written: " + written.message;
  return {3, "", "internal error: " + what + "; this is a defect of sluice, " + where};
}

/// Returns the message of a numbered constraint that the model breaks, with its place; empty if
/// there is none.
static std::string findRejection(StringRef diagnostics) {
  static const llvm::Regex place("^loc\\(\"(.*)\":([0-9]+):([0-9]+)\\): (S-[0-9]+: .*)$");
  for (StringRef line : llvm::split(diagnostics, '\n')) {
    SmallVector<StringRef> parts;
    if (place.match(line, &parts)) {
      return llvm::join_items(":", parts[1], parts[2], parts[3], " ") + parts[4].str();
    }
  }
  return "";
}

/// Returns an LSH attention op, or null; with `isSorted`, one whose rows are sorted by hashes.
static HashedAttentionOp findHashed(ModuleOp module, bool isSorted = false) {
  HashedAttentionOp found;
  module.walk([&](HashedAttentionOp op) { found = isSorted && !op.getSorted() ? found : op; });
  return found;
}

/// Returns labels that predictions read; null if only losses read labels.
static LabelsOp findReadLabels(ModuleOp module) {
  LabelsOp found;
  if (auto predict = module.lookupSymbol<func::FuncOp>("predict")) {
    predict.walk([&](LabelsOp op) { found = op; });
  }
  return found;
}

/// Returns the message for a model that is checked but not compiled; empty if it can be compiled.
static std::string findUncompiled(ModuleOp model) {
  if (HashedAttentionOp sorted = findHashed(model, /*isSorted=*/true)) {
    return spec::toString(getOpLocation(sorted)) +
           ": expected hashes whose ranks count earlier rows, found rows sorted by hashes, "
           "which are not compiled, as a row then reads what later rows decide; leave out "
           "\"causal\": false";
  }
  LabelsOp read = findReadLabels(model);
  if (read && read.getNumbers()) {
    return spec::toString(getOpLocation(read)) +
           ": expected numbers that a loss alone reads, found an embedding of the input \"" +
           read.getLabel().str() +
           "\", which is not compiled, as generation has none; give it the role \"target\" "
           "or \"weight\"";
  }
  if (read) {
    return spec::toString(getOpLocation(read)) +
           ": expected labels that a loss alone reads, found boundaries by labels, which "
           "are not compiled, as evaluation and generation have none; give them a "
           "\"predictor\" that learns the labels";
  }
  return "";
}

/// Compares the dependences after a pass with the dependences before the first pass; `pass` is
/// empty before the first pass.
std::optional<Outcome> Compilation::watchPass(StringRef pass, ModuleOp lowered) {
  if (!request.verifyEachCausality) {
    return std::nullopt;
  }
  if (pass.empty()) {
    watch.emplace(lowered);
    return std::nullopt;
  }
  if (!watch) {
    return std::nullopt;
  }
  // The watch compares whole sequences. The derivation of the step proves its reads.
  if (pass == "sluice-derive-step") {
    if (Operation *step = lowered.lookupSymbol("step")) {
      eraseNames(step);
    }
  } else if (std::optional<std::string> added = watch->find(lowered, pass)) {
    return internalError(*added);
  }
  StringRef last = emits("step")                                ? "sluice-derive-step"
                   : emits("gradient")                          ? "sluice-differentiate"
                   : request.memoryBudget && lowered == *module ? "sluice-recompute"
                                                                : "sluice-separate-places";
  if (pass == last) {
    LoweringWatch::finish(lowered);
    watch.reset();
  }
  return std::nullopt;
}

/// Runs after each pass: compares dependences, merges factors, and checks the needs of kernels and
/// memory against the limits.
std::optional<Outcome> Compilation::finishPass(StringRef pass, ModuleOp lowered,
                                               AnalysisManager analyses) {
  if (isCancelled()) {
    return cancelled;
  }
  if (auto failure = watchPass(pass, lowered)) {
    return failure;
  }
  if (lowered != *module) {
    return std::nullopt; // a module of another factor
  }
  bool generates = request.generationRows > 0 && !request.everyRow && !request.attention;
  bool needsStep = !request.weights.empty() && generates;
  if (pass == "sluice-form-dispatches" && needsStep && !lowered.lookupSymbol("step")) {
    return badInput(input.sizesPlace +
                    ": --weights: expected a model with a decode step, which reads fewer bytes of "
                    "weights, found one that generates by computing whole sequences; leave out "
                    "--weights");
  }
  if (pass == "sluice-separate-places") {
    if (failed(mergeVariants(lowered, input.variants))) {
      return internalError("factors do not share their memory");
    }
    report(emits("dispatches") && !request.memoryBudget ? "lowering the model"
                                                        : "generating kernels");
  } else if (pass == "sluice-generate-kernels") {
    KernelSet &generated = *analyses.getAnalysis<KernelAnalysis>().set;
    if (std::string excess = findExcess(lowered, generated); !excess.empty()) {
      return badInput(excess);
    }
    chooseLibraries(generated);
  } else if (pass == "sluice-recompute") {
    auto &shared = analyses.getAnalysis<KernelAnalysis>();
    return keepToBudget(*shared.set, *shared.recomputation);
  } else if (pass == "sluice-plan-memory") {
    const MemoryPlan &plan = *analyses.getAnalysis<MemoryAnalysis>().plan;
    if (std::string excess = findExcess(plan); !excess.empty()) {
      return badInput(input.sizesPlace + ": " + excess);
    }
  } else if (pass == "sluice-emit-plan") {
    kernels = std::move(analyses.getAnalysis<KernelAnalysis>().set);
    memory = std::move(analyses.getAnalysis<MemoryAnalysis>().plan);
    memory->budget = budget;
  }
  return std::nullopt;
}

/// Runs the pipeline up to the stage to print. `lowered` is the module of generation, or the module
/// of another factor, which is lowered to dispatches only.
std::optional<Outcome> Compilation::runPipeline(ModuleOp lowered) {
  PipelineOptions options;
  options.emit = getStage(request.emit).value_or(Stage::Plan);
  options.targets = targets.getNames();
  options.l2Bytes = request.l2Bytes;
  options.hasGradient = request.hasGradient && !request.everyRow && !request.attention;
  // Only the module of generation has a step.
  options.hasStep = proof.verdict == "proved" && request.generationRows > 0 && lowered == *module;
  options.operations = request.operations;
  options.generationRows = request.generationRows;
  options.weights = request.weights;
  options.keepMaps = keepMaps;
  options.memoryBudget = request.memoryBudget.value_or(0);
  options.keepFunctions = request.emit.empty();
  std::optional<Outcome> stopped;
  auto callback = [&](StringRef pass, ModuleOp at, AnalysisManager analyses) -> LogicalResult {
    stopped = finishPass(pass, at, analyses);
    return failure(stopped.has_value());
  };
  PassManager manager(&context);
  lowered == *module ? buildCompilePipeline(manager, options, callback)
                     : buildDispatchPipeline(manager, options, callback);
  if (succeeded(manager.run(lowered))) {
    return std::nullopt;
  }
  if (stopped) {
    return stopped;
  }
  if (rejection.empty() && (isModelIR(request.spec) || emits("step"))) {
    rejection = findRejection(diagnostics);
  }
  return rejection.empty() ? internalError() : badInput(rejection);
}

/// Lowers every factor. Modules of other factors are lowered to dispatches, which are merged into
/// the module of generation.
std::optional<Outcome> Compilation::lowerModels() {
  bool isCompiled = !emits("model") && !emits("step") && !emits("gradient");
  module = std::move(input.variants.front().module);
  for (const ImportedVariant &variant : input.variants) {
    ModuleOp model = variant.module ? *variant.module : *module;
    auto hashed = findHashed(model);
    if (request.verifyEachCausality && hashed && !emits("model")) {
      return badInput(
          spec::toString(getOpLocation(hashed)) +
          ": --verify-each-causality: expected masks and shifts that select rows, found LSH "
          "attention, whose reads cannot be compared after a pass; leave the flag out");
    }
    if (std::string why = isCompiled ? findUncompiled(model) : ""; !why.empty()) {
      return badInput(why);
    }
  }
  for (ImportedVariant &variant : llvm::drop_begin(input.variants)) {
    if (auto outcome = runPipeline(*variant.module)) {
      return outcome;
    }
  }
  return runPipeline(*module);
}

/// Prints the last stage, and for stages before dispatches the modules of all factors.
Outcome Compilation::printStage() const {
  std::string printed = printOp(*module, request);
  if (emits("model") || emits("step") || emits("gradient")) {
    for (const ImportedVariant &variant : llvm::drop_begin(input.variants)) {
      printed += "// -----\n" + printOp(*variant.module, request);
    }
  }
  return {0, printed, ""};
}

/// Prints the main module as a Python file, with the logits of every row.
Outcome Compilation::printForPyTorch() {
  ModuleOp model = *input.variants.front().module;
  if (model.lookupSymbol("predict") && failed(keepEveryRow(model, ""))) {
    return internalError();
  }
  llvm::Expected<std::string> printed = printPyTorch(model);
  if (!printed) {
    return badInput(request.spec + ": " + llvm::toString(printed.takeError()) +
                    "; leave out the stage, or use the model with sluice");
  }
  return {0, std::move(*printed), ""};
}

/// Reports the recomputation that the budget required, or that the budget cannot be met.
std::optional<Outcome> Compilation::keepToBudget(const KernelSet &generated,
                                                 const Recomputation &made) {
  if (made.arenaBytes > *request.memoryBudget) {
    least = made.arenaBytes;
    return badInput(input.sizesPlace + ": " + explainBudget(made, *request.memoryBudget));
  }
  if (!made.copies.empty()) {
    input.notice +=
        (input.notice.empty() ? "" : "\n") + describeRecomputation(made, *module, generated);
  }
  budget = {*request.memoryBudget, made.fullBytes, made.launches, made.operations};
  return std::nullopt;
}

/// Lowers kernels to CPU objects and to code for GPUs.
std::optional<Outcome> Compilation::lowerKernels(std::vector<std::string> &objects,
                                                 std::vector<Blob> &blobs) {
  SmallVector<cpu::ObjectRequest> requests;
  for (size_t i = 0; i < targets.cpus.size(); ++i) {
    requests.push_back({*kernels->modules[i], targets.cpus[i]});
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
  FailureOr<std::vector<Blob>> code = lowerDeviceKernels(*kernels, cache);
  if (failed(code) || failed(cpu::lowerToObjects(requests, objects, cache, reportKernels))) {
    return internalError();
  }
  if (std::string problem = cache.getProblem(); setting->isNamed && !problem.empty()) {
    input.notice +=
        (input.notice.empty() ? "" : "\n") + problem + "; compiled without storing them";
  }
  blobs = std::move(*code);
  return std::nullopt;
}

/// Records the library algorithm for each product that was measured to be faster in the library.
/// The generated kernel remains in the artifact.
void Compilation::chooseLibraries(KernelSet &generated) const {
  for (KernelRecord &record : generated.records) {
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

/// Compiles the kernels and links them with the plan.
Outcome Compilation::writeArtifact() {
  std::vector<std::string> objects;
  std::vector<Blob> blobs;
  if (auto outcome = lowerKernels(objects, blobs)) {
    return *outcome;
  }
  std::string plan;
  SpecRecord spec{input.text, trainsOnTokens, input.facts, input.batchTokens,
                  shapesToJson(input.shapes)};
  llvm::raw_string_ostream(plan) << planToJson(*module, *kernels, *memory, spec, proof, targets);
  // A compiled plan must load.
  if (std::string mistake = runtime::findPlanMistake(plan); !mistake.empty()) {
    return internalError("the runtime would reject the plan" + mistake);
  }
  if (isCancelled()) {
    return cancelled;
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
  replaceFile(request.output, asBytes(*artifact));
  return {0, "", input.notice};
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
    if (std::string found = getRejection(diagnostic); !found.empty()) {
      rejection = found;
    }
    return success();
  });
  report("reading the spec");
  if (auto outcome = readInput(request, targets, context, input)) {
    return *outcome;
  }
  dropUnusedTargets(*input.variants.front().module, request.weights.starts_with("int"), targets);
  trainsOnTokens = driver::trainsOnTokens(*input.variants.front().module);
  for (const ImportedVariant &variant : input.variants) {
    imported += (imported.empty() ? "" : "// -----\n") + printOp(*variant.module, request);
  }
  if (request.replay) {
    prepareReplay();
  } else if (request.attention) {
    proof = {"leak-allowed", {}};
    AttentionFacts ignored;
    std::string mistake =
        returnAttention(*input.variants.front().module, *request.attention, ignored);
    if (!mistake.empty()) {
      return badInput(mistake);
    }
  } else if (request.everyRow) {
    proof = {"leak-allowed", {}};
    if (failed(keepEveryRow(*input.variants.front().module, *request.everyRow))) {
      return internalError();
    }
  } else {
    report("proving causality");
    if (auto outcome = checkCausal()) {
      return *outcome;
    }
    addShapes(input.variants, input.shapes); // relations are the same for all capacities
  }
  if (emits("pytorch")) {
    return printForPyTorch();
  }
  if (auto outcome = checkOutput()) {
    return *outcome;
  }
  report("lowering the model");
  if (auto outcome = lowerModels()) {
    return *outcome;
  }
  return request.emit.empty() ? writeArtifact() : printStage();
}

const std::vector<std::string> &driver::emitStages() {
  static const std::vector<std::string> stages{"spec",     "model",      "pytorch", "step",
                                               "gradient", "dispatches", "kernels", "plan"};
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

/// Compiles within the memory budget. Rematerialized maps need less memory in total, but more where
/// they are computed, so a budget that is too small with them may be met without them. Tries this
/// in f32 only, because it would change the gradients of bf16.
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

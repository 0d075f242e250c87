// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The road from a spec to an artifact.
#include "Limits.h"
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Spec/Spec.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Transforms/ImportSpec.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

namespace {

Outcome badInput(const std::string &message) { return {2, "", message}; }

/// One compilation: stages in order, each able to end it.
class Compilation {
public:
  explicit Compilation(const CompileRequest &request) : request(request) {}

  Outcome run();

private:
  std::optional<Outcome> checkOutput() const;
  std::optional<Outcome> chooseTargets();
  std::optional<Outcome> readModel();
  std::optional<Outcome> readModelIR();
  std::optional<Outcome> checkCausal();
  std::optional<Outcome> runPass(std::unique_ptr<Pass> pass);
  std::optional<Outcome> lowerModel();
  Outcome generate();
  Outcome internalError();
  bool emits(StringRef stage) const { return request.emit == stage; }
  std::string print(Operation *op) const;

  const CompileRequest &request;
  MLIRContext context;
  std::string text; ///< the spec, or the model IR, as it was read
  OwningOpRef<ModuleOp> module;
  std::string imported; ///< the module as imported, for the reproducer
  std::string diagnostics;
  std::vector<const cpu::Target *> targets;
  ProofRecord proof;
};

/// Before the work, since a compile may take seconds.
std::optional<Outcome> Compilation::checkOutput() const {
  if (!request.emit.empty()) {
    return std::nullopt;
  }
  if (llvm::sys::fs::equivalent(request.spec, request.output)) {
    return badInput(
        request.output +
        ": expected the name of a new file, found the spec itself; name another artifact");
  }
  if (llvm::Error error = checkArtifactPath(request.output)) {
    return badInput(llvm::toString(std::move(error)));
  }
  return std::nullopt;
}

std::optional<Outcome> Compilation::chooseTargets() {
  for (const std::string &name : request.targets) {
    bool known = false;
    for (const cpu::Target *target : {&cpu::Target::avx512(), &cpu::Target::avx2()}) {
      if (name == "cpu" || name == target->name) {
        known = true;
        if (!llvm::is_contained(targets, target)) {
          targets.push_back(target);
        }
      }
    }
    if (!known) {
      bool isGpu = StringRef(name).starts_with("sm_");
      return badInput("--target: expected cpu, cpu-avx512 or cpu-avx2, found '" + name + "'" +
                      (isGpu ? "; GPU targets are not in this build" : ""));
    }
  }
  return std::nullopt;
}

std::optional<Outcome> Compilation::checkCausal() {
  CausalVerdict verdict = checkCausality(*module);
  if (!verdict.isProved() && !request.allowLeak) {
    return Outcome{1, "",
                   verdict.format() + "\nnothing was compiled; mend the spec, or pass "
                                      "--allow-leak, which the artifact then says for ever"};
  }
  proof = {verdict.isProved() ? "proved" : "leak-allowed", verdict.modes};
  return std::nullopt;
}

/// Compiler talk never reaches a user: it goes into a reproducer beside the artifact.
Outcome Compilation::internalError() {
  std::string path = (request.output.empty() ? request.spec : request.output) + ".reproducer.mlir";
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (!code) {
    file << "// sluice compile " << request.spec << "\n";
    for (StringRef line : llvm::split(diagnostics, '\n')) {
      file << "// " << line << "\n";
    }
    file << imported;
  }
  std::string where =
      code ? "no reproducer could be written: " + code.message() : "please report it with " + path;
  return {3, "",
          "internal error: the compiler failed on a valid spec; this is a defect of sluice, " +
              where};
}

std::optional<Outcome> Compilation::runPass(std::unique_ptr<Pass> pass) {
  PassManager manager(&context);
  manager.addPass(std::move(pass));
  return failed(manager.run(*module)) ? std::optional(internalError()) : std::nullopt;
}

std::string Compilation::print(Operation *op) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  stream << "\n";
  return text;
}

/// Model IR to dispatches, stopping where a stage is asked for.
std::optional<Outcome> Compilation::lowerModel() {
  if (emits("model")) {
    return Outcome{0, imported, ""};
  }
  if (auto failure = runPass(createDifferentiate())) {
    return failure;
  }
  if (emits("gradient")) {
    return Outcome{0, print(*module), ""};
  }
  if (auto failure = runPass(createFormDispatches())) {
    return failure;
  }
  if (auto failure = runPass(createBuildEntries())) {
    return failure;
  }
  if (emits("dispatches")) {
    return Outcome{0, print(*module), ""};
  }
  return std::nullopt;
}

Outcome Compilation::generate() {
  FailureOr<KernelSet> kernels = generateKernels(*module, targets);
  if (failed(kernels)) {
    return internalError();
  }
  if (emits("kernels")) {
    std::string text;
    for (auto &generated : kernels->modules) {
      text += print(*generated);
    }
    return {0, text, ""};
  }
  FailureOr<MemoryPlan> memory = planMemory(*module);
  if (failed(memory)) {
    return internalError();
  }
  emitPlan(*module, *kernels, *memory);
  if (emits("plan")) {
    for (auto func : llvm::to_vector(module->getOps<func::FuncOp>())) {
      func.erase();
    }
    return {0, print(*module), ""};
  }
  SmallVector<cpu::ObjectRequest> requests;
  for (size_t i = 0; i < targets.size(); ++i) {
    requests.push_back({*kernels->modules[i], targets[i]});
  }
  std::vector<std::string> objects;
  if (failed(cpu::lowerToObjects(requests, objects))) {
    return internalError();
  }
  std::string plan;
  llvm::raw_string_ostream(plan) << planToJson(*module, *kernels, *memory, text, proof, targets);
  if (llvm::Error error =
          writeArtifact(request.output, plan, makeConstants(*module, *memory), objects)) {
    return badInput(llvm::toString(std::move(error)));
  }
  return {};
}

/// A module attribute that is missing or of another kind; empty if there is none.
std::string findAttributeMistake(ModuleOp module) {
  for (StringRef name :
       {"sluice.batch", "sluice.context", "sluice.vocabulary", "sluice.width", "sluice.seed"}) {
    auto attribute = module->getAttrOfType<IntegerAttr>(name);
    int64_t least = name == "sluice.seed" ? 0 : 1;
    constexpr int64_t most = int64_t{1} << 31;
    bool fits =
        attribute && attribute.getType().isSignlessInteger(64) && attribute.getInt() >= least;
    if (!fits || (least == 1 && attribute.getInt() >= most)) {
      return "expected the module attribute " + name.str() + ", an i64 of at least " +
             std::to_string(least) + (least == 1 ? " and below 2^31" : "") + ", found " +
             (module->hasAttr(name) ? "another value" : "none");
    }
  }
  if (!module->getAttrOfType<StringAttr>("sluice.name")) {
    return "expected the module attribute sluice.name, a string, found none";
  }
  auto training = module->getAttrOfType<DictionaryAttr>("sluice.training");
  for (StringRef name : {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "clip",
                         "warmup", "steps", "floor"}) {
    if (!training || !training.getAs<FloatAttr>(name)) {
      return "expected the number " + name.str() +
             " in the module attribute sluice.training, found none";
    }
  }
  for (StringRef name : {"optimizer", "schedule"}) {
    if (!training.getAs<StringAttr>(name)) {
      return "expected the text " + name.str() +
             " in the module attribute sluice.training, found none";
    }
  }
  return "";
}

/// Weights must fill their parameter: a plan gives each its own bytes of it.
bool isFilled(ParameterOp parameter) {
  auto type = dyn_cast<RankedTensorType>(parameter.getType());
  if (!type || !type.hasStaticShape() || type.getRank() == 0 ||
      parameter.getNames().size() != parameter.getSizes().size()) {
    return false;
  }
  int64_t rest = type.getDimSize(0);
  for (int64_t size : parameter.getSizes()) {
    if (size < 0 || size > rest) {
      return false;
    }
    rest -= size;
  }
  return rest == 0;
}

/// A scale or parameter that is used and not defined, or defined otherwise; empty if there is none.
std::string findSymbolMistake(ModuleOp module) {
  std::string mistake;
  auto at = [](Operation *op) {
    std::string text;
    llvm::raw_string_ostream(text) << "at " << op->getLoc() << ": ";
    return text;
  };
  auto checkType = [&](Operation *op, Type type) {
    auto sequence = dyn_cast<SequenceType>(type);
    if (sequence && !SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, sequence.getScale())) {
      mistake = at(op) + "expected a defined scale, found @" + sequence.getScale().getValue().str();
    }
  };
  module.walk([&](Operation *op) {
    llvm::for_each(op->getResultTypes(), [&](Type type) { checkType(op, type); });
    if (auto func = dyn_cast<func::FuncOp>(op)) {
      llvm::for_each(func.getArgumentTypes(), [&](Type type) { checkType(op, type); });
    }
    if (auto parameter = dyn_cast<ParameterOp>(op); parameter && !isFilled(parameter)) {
      mistake = at(op) +
                "expected a static shape, and names and sizes that fill its first dimension, of "
                "parameter @" +
                parameter.getSymName().str();
    }
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto parameter =
          SymbolTable::lookupNearestSymbolFrom<ParameterOp>(op, read.getParameterAttr());
      if (!parameter || parameter.getType() != read.getValue().getType()) {
        mistake = at(op) + "expected a parameter of the type that is read, found @" +
                  read.getParameter().str();
      }
    }
    return mistake.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  for (StringRef name : {"evaluate", "predict"}) {
    if (mistake.empty() && !module.lookupSymbol<func::FuncOp>(name)) {
      mistake = "expected a function @" + name.str() + ", found none";
    }
  }
  return mistake;
}

std::string findMistake(ModuleOp module) {
  std::string mistake = findAttributeMistake(module);
  return mistake.empty() ? findSymbolMistake(module) : mistake;
}

/// Model IR as --emit model prints it, perhaps edited by hand: its mistakes are the user's.
std::optional<Outcome> Compilation::readModelIR() {
  auto buffer = llvm::MemoryBuffer::getFile(request.spec);
  if (!buffer) {
    return badInput(request.spec +
                    ": expected a readable file, found: " + buffer.getError().message());
  }
  text = (*buffer)->getBuffer().str();
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
  module = parseSourceFile<ModuleOp>(request.spec, ParserConfig(&context));
  if (!module) {
    return badInput("expected model IR as --emit model prints it, found " + diagnostics);
  }
  std::string mistake = findMistake(*module);
  return mistake.empty()
             ? std::nullopt
             : std::optional(badInput(request.spec + ": " + mistake + "; start from --emit model"));
}

std::optional<Outcome> Compilation::readModel() {
  if (StringRef(request.spec).ends_with(".mlir")) {
    return readModelIR();
  }
  spec::Diagnostic error;
  std::optional<spec::Model> model = spec::readFile(request.spec, error);
  if (!model) {
    return badInput(error.format());
  }
  if (auto unsupported = findUnsupported(*model)) {
    return badInput(unsupported->format());
  }
  text = model->text;
  module = importSpec(context, *model);
  return module ? std::nullopt : std::optional(internalError());
}

Outcome Compilation::run() {
  if (auto outcome = chooseTargets()) {
    return *outcome;
  }
  if (!request.emit.empty() && !llvm::is_contained(emitStages(), request.emit)) {
    return badInput("--emit: expected one of " + llvm::join(emitStages(), ", ") + ", found '" +
                    request.emit + "'");
  }
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(diagnostics) << diagnostic.getLocation() << ": " << diagnostic << "\n";
    return success();
  });
  if (auto outcome = readModel()) {
    return *outcome;
  }
  imported = print(*module);
  if (auto outcome = checkCausal()) {
    return *outcome;
  }
  if (auto outcome = checkOutput()) {
    return *outcome;
  }
  if (auto outcome = lowerModel()) {
    return *outcome;
  }
  return generate();
}

} // namespace

const std::vector<std::string> &driver::emitStages() {
  static const std::vector<std::string> stages{"model", "gradient", "dispatches", "kernels",
                                               "plan"};
  return stages;
}

Outcome driver::compile(const CompileRequest &request) { return Compilation(request).run(); }

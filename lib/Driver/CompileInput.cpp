// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of a compilation: a spec and its precision, or model IR.
#include "CompileInput.h"
#include "Factors.h"
#include "Limits.h"
#include "ModelIR.h"
#include "Shapes.h"
#include "SpecFacts.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Spec/Override.h"
#include "sluice/Support/Text.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

/// Returns "spec.json:7:5: --target sm_80", with the location of the precision in the spec, or of
/// the place for one.
static std::string getPrecisionPlace(const ParsedSpec &spec, const Targets &targets) {
  return spec::toString(spec.getPlace("precision")) + ": --target " +
         targets.gpus.front()->chip.str();
}

/// Returns the message that GPUs have no code for the requested f32.
static std::string explainPrecision(const ParsedSpec &spec, const Targets &targets,
                                    const std::string &asked) {
  return getPrecisionPlace(spec, targets) +
         ": expected linear maps, attention and head that multiply bf16, found " + asked +
         "; give --precision bf16, or leave out the GPU targets";
}

/// Describes the precision of a compile for GPUs. An artifact has one precision, so that all its
/// targets compute the same model.
static std::string describePrecision(const ParsedSpec &spec, const Targets &targets) {
  return getPrecisionPlace(spec, targets) +
         ": the spec computes in f32 and GPU code multiplies bf16, so that the whole artifact "
         "does" +
         (targets.cpus.empty() ? "" : ", its code for CPUs too") +
         "; give --precision bf16 to confirm, or leave out the GPU targets for f32";
}

static bool multipliesBf16(const ParsedSpec &spec) {
  auto precisions = spec.getModel().getBody().getOps<spec::PrecisionOp>();
  return (*precisions.begin()).getCompute() == spec::StorageType::bf16;
}

/// Rejects ops of an imported spec or of model IR that cannot be compiled.
static std::optional<Outcome> checkLimits(CompileInput &input, const ParsedSpec *spec) {
  int64_t period = 1;
  for (ImportedVariant &variant : input.variants) {
    if (auto refusal = findUnsupported(*variant.module, period)) {
      spec::SourceLocation place =
          spec ? getPlace(*refusal, *spec, variant.factor) : getOpLocation(refusal->op);
      return badInput(spec::toString(place) + ": " + refusal->message);
    }
  }
  return std::nullopt;
}

std::string driver::printOp(Operation *op, const CompileRequest &request) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  op->print(stream, request.emitLocations ? flags.enableDebugInfo().useLocalScope() : flags);
  stream << "\n";
  return text;
}

std::optional<Outcome> driver::readInput(const CompileRequest &request, const Targets &targets,
                                         MLIRContext &context, CompileInput &input) {
  if (!isModelIR(request.spec)) {
    spec::Diagnostic error;
    std::vector<spec::SpecOverride> settings = request.settings;
    if (!request.precision.empty()) {
      settings.push_back(spec::computeSetting(request.precision));
    }
    auto read = [&] {
      return request.text ? parseSpec(context, *request.text, request.spec, error, settings)
                          : parseSpecFile(context, request.spec, error, settings);
    };
    std::optional<ParsedSpec> spec = read();
    if (!spec) {
      return badInput(error.format());
    }
    if (auto large = findLargeBatch(*spec)) {
      return badInput(large->format());
    }
    if (!targets.gpus.empty() && !multipliesBf16(*spec)) {
      auto asked = llvm::find_if(llvm::reverse(settings), [](const spec::SpecOverride &setting) {
        return setting.path == spec::computeSetting("f32").path;
      });
      if (asked != settings.rend()) {
        return badInput(explainPrecision(*spec, targets, asked->flag));
      }
      input.notice = describePrecision(*spec, targets);
      settings.push_back(spec::computeSetting("bf16"));
      spec = read();
      if (!spec) {
        return badInput(error.format());
      }
    }
    if (request.emit == "spec") {
      return Outcome{0, printOp(*spec->withFactor(0).module, request), ""};
    }
    input.text = spec->text;
    input.sizesPlace = spec::toString(spec->getPlace("context"));
    std::string mistake = findFactorMistake(*spec, request);
    if (!mistake.empty()) {
      return badInput(mistake);
    }
    input.variants = importVariants(*spec, request);
    if (auto refused = checkLimits(input, &*spec)) {
      return refused;
    }
    if (!request.replay && !request.everyRow && !request.attention) {
      input.shapes = chooseShapes(*spec);
      input.batchTokens = getBatchTokens(*spec);
    }
    if (!input.shapes.empty() && input.variants.size() > 1) {
      return badInput(spec::toString(spec->getPlace("stages")) +
                      ": expected one factor per level where \"batch_tokens\" is set, found "
                      "factors that steps draw; write one factor, or leave \"batch_tokens\" out");
    }
    const ImportedVariant &main = input.variants.front();
    input.facts = getSpecFacts(*spec, main.factor, *main.module);
    if (request.weights == "bf16" && multipliesBf16(*spec)) {
      return badInput(spec::toString(spec->getPlace("precision")) +
                      ": --weights bf16: expected a model that computes in f32, found bf16, which "
                      "reads weights as bf16 already; leave out --weights");
    }
    if (!request.weights.empty()) {
      (*input.facts->getObject("precision"))["weights"] = request.weights;
    }
    return std::nullopt;
  }
  if (request.emit == "spec") {
    return badInput(request.spec + ": --emit spec: expected a spec, found model IR; name a spec");
  }
  if (!request.precision.empty()) {
    return badInput(request.spec +
                    ": --precision: expected a spec, found model IR, whose types specify it; leave "
                    "out --precision, or emit the IR from a spec with it");
  }
  if (!request.weights.empty()) {
    return badInput(request.spec +
                    ": --weights: expected a spec, found model IR; leave out --weights, or compile "
                    "the spec that the IR comes from");
  }
  if (!request.settings.empty()) {
    return badInput(request.spec + ": " + request.settings.front().flag +
                    ": expected a spec, found model IR; change the IR itself, or emit it from a "
                    "spec with the flag");
  }
  std::string mistake;
  input.sizesPlace = showPath(request.spec);
  input.variants.push_back({0, readModelIR(context, request.spec, input.text, mistake)});
  ModuleOp read = input.variants.front().module.get();
  if (!read) {
    return badInput(mistake);
  }
  std::string limit = findUncompilable(read);
  return limit.empty() ? checkLimits(input, nullptr) : badInput(request.spec + ": " + limit);
}

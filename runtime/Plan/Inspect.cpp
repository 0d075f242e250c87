// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/Inspect.h"

#include "sluice/Runtime/Plan/Ledger.h"
#include "sluice/Runtime/Plan/MemoryTable.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Json.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

namespace sluice::runtime {
namespace {

struct StepCosts {
  int64_t forward = 0, backward = 0, update = 0; // numbers of launches
  double flops = 0, bytes = 0;
  struct Stages {
    int64_t forward = 0, backward = 0, update = 0;
  };
  std::map<std::string, Stages> onGpu; // launches by target; a dispatch may take several
};

/// Returns the costs of a training step.
StepCosts costsOfStep(const Plan &plan) {
  StepCosts costs;
  for (const StepLaunch &each : listLaunchesOfStep(plan)) {
    auto count = [&](auto &counts, int64_t number) {
      (each.phase == StepPhase::update     ? counts.update
       : each.phase == StepPhase::backward ? counts.backward
                                           : counts.forward) += each.times * number;
    };
    count(costs, 1);
    for (const auto &[target, variant] : each.kernel->deviceVariants) {
      count(costs.onGpu[target], static_cast<int64_t>(variant.stages.size()));
    }
    costs.flops += static_cast<double>(each.times) * static_cast<double>(each.kernel->flops);
    costs.bytes += static_cast<double>(each.times) * static_cast<double>(each.kernel->bytes);
  }
  return costs;
}

Json describeStages(const LedgerLine &line) {
  Json stages = Json::array();
  for (const DeviceStage &stage : line.variant->stages) {
    stages.push_back({{"symbol", stage.symbol},
                      {"blocks", stage.blocks},
                      {"threads", stage.threads},
                      {"shared_bytes", stage.sharedBytes + stage.staticSharedBytes}});
    if (stage.registers >= 0) {
      stages.back()["registers"] = stage.registers;
      stages.back()["spills"] = stage.spills;
      stages.back()["stack_bytes"] = stage.stackBytes;
      stages.back()["occupancy"] = computeOccupancy(stage, getChip(line.target));
    }
  }
  return stages;
}

/// Describes a kernel. Results of ptxas are null if the compiler did not run it.
Json describeLine(const LedgerLine &line) {
  Json json = {{"name", line.kernel->name},
               {"target", line.target},
               {"kind", line.kernel->kind},
               {"flops", line.kernel->flops},
               {"bytes", line.kernel->bytes},
               {"planned_bytes", line.variant->plannedBytes},
               {"registers", nullptr},
               {"spills", nullptr},
               {"occupancy", nullptr},
               {"shared_bytes", line.sharedBytes},
               {"workspace_bytes", line.variant->workspaceBytes},
               {"stages", describeStages(line)}};
  if (line.registers >= 0) {
    json["registers"] = line.registers;
    json["spills"] = line.spills;
    json["occupancy"] = line.occupancy;
  }
  if (line.kernel->product) {
    json["library"] = line.variant->library ? Json("cublaslt") : Json(nullptr);
  }
  json["estimate"] = {{"chip", getChip(line.target).name},
                      {"roofline_us", line.rooflineSeconds * 1e6}};
  return json;
}

/// Returns the number of launches of a decode step by rate, the most frequent first.
std::vector<std::pair<Generation::Rate, int64_t>> launchesOfStep(const Plan &plan) {
  std::map<Generation::Rate, int64_t> counts;
  for (const Launch &launch : plan.entries.at("step")) {
    auto rate = plan.generation->rates.find(launch.guard ? launch.guard->scalar : "");
    bool isRare = rate != plan.generation->rates.end() &&
                  (rate->second.runs < rate->second.period || !rate->second.segments.empty());
    ++counts[isRare ? rate->second : Generation::Rate()];
  }
  std::vector<std::pair<Generation::Rate, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](const auto &a, const auto &b) {
    int64_t left = a.first.runs * b.first.period, right = b.first.runs * a.first.period;
    return left != right ? left > right : a.first < b.first;
  });
  return sorted;
}

/// Returns "every token", "every 4th token", "in 3 of 4 tokens", or "where a segment of words ends
/// (at most 21 of 48 tokens)".
std::string showRate(const Generation::Rate &rate) {
  if (!rate.segments.empty()) {
    return "where a segment of " + rate.segments + " ends (at most " + std::to_string(rate.runs) +
           " of " + std::to_string(rate.period) + " tokens)";
  }
  if (rate.runs != 1) {
    return "in " + std::to_string(rate.runs) + " of " + std::to_string(rate.period) + " tokens";
  }
  const char *ordinal = rate.period == 2 ? "nd" : rate.period == 3 ? "rd" : "th";
  return rate.period == 1 ? "every token"
                          : "every " + std::to_string(rate.period) + ordinal + " token";
}

Json describeStates(const Generation &generation) {
  Json states = Json::array();
  for (const auto &[name, state] : generation.states) {
    states.push_back({{"name", name},
                      {"shape", state.region.shape},
                      {"dtype", getTypeName(state.region.type)},
                      {"bytes", state.rowBytes() * generation.rows},
                      {"scale", state.scale},
                      {"by_line", state.isByLine}});
  }
  return states;
}

Json describeGeneration(const Plan &plan) {
  Json launches = Json::array();
  for (const auto &[rate, count] : launchesOfStep(plan)) {
    launches.push_back({{"runs", rate.runs}, {"period", rate.period}, {"count", count}});
    if (!rate.segments.empty()) {
      launches.back()["segments"] = rate.segments;
    }
  }
  return {{"rows", plan.generation->rows},
          {"period", plan.generation->period},
          {"launches", launches},
          {"weight_bytes_read", plan.generation->weightReads},
          {"state_bytes_read", plan.generation->stateReads}};
}

void describeGenerationForPeople(std::ostringstream &out, const Plan &plan) {
  out << "\ngeneration: " << describeCount(plan.generation->rows, "text")
      << " at once; launches of a step:";
  const char *separator = " ";
  for (const auto &[rate, count] : launchesOfStep(plan)) {
    out << std::exchange(separator, ", ") << count << " " << showRate(rate);
  }
  std::string weights = plan.facts ? plan.facts->weights : "";
  out << "\n  a step reads " << showBytes(static_cast<double>(plan.generation->weightReads))
      << " of weights" << (weights.empty() ? "" : " (" + weights + ")") << " and, of each text, "
      << showBytes(plan.generation->stateReadsAt(0, plan.model.context, plan.model.context))
      << " of states, "
      << (plan.segments.empty() ? "on the average" : "with as many segments as there may be")
      << "\n";
  out << format("%-52s %8s %6s %8s %8s %14s\n", "state (of each text)", "scale", "type", "rows",
                "width", "bytes");
  for (const auto &[name, state] : plan.generation->states) {
    const std::vector<int64_t> &shape = state.region.shape;
    out << format("%-52s %8lld %6s %8lld %8lld %14lld%s\n", name.c_str(),
                  static_cast<long long>(state.scale),
                  std::string(getTypeName(state.region.type)).c_str(),
                  static_cast<long long>(shape.size() > 1 ? shape[1] : 1),
                  static_cast<long long>(shape.size() > 2 ? shape[2] : 1),
                  static_cast<long long>(state.rowBytes()),
                  state.isByLine ? "  (shared by the hypotheses of a beam)" : "");
  }
}

/// Prints the ledger of one GPU target.
void describeTarget(std::ostringstream &out, const std::vector<LedgerLine> &ledger,
                    const std::string &target) {
  out << "\n"
      << target << ": kernels for a GPU; roofline is an estimate for an " << getChip(target).name
      << " from its data sheet, nothing was measured\n";
  out << format("%-52s %-10s %6s %8s %7s %6s %6s %7s %9s %10s %12s %11s %9s\n", "kernel", "kind",
                "stages", "blocks", "threads", "regs", "spills", "shared", "occupancy", "workspace",
                "flops", "bytes", "roofline");
  auto known = [](int64_t value) { return value < 0 ? std::string("-") : std::to_string(value); };
  for (const LedgerLine &line : ledger) {
    if (line.target != target) {
      continue;
    }
    const DeviceStage &first = line.variant->stages.front();
    std::string occupancy = line.occupancy < 0 ? "-" : format("%.0f%%", 100 * line.occupancy);
    out << format("%-52s %-10s %6zu %8lld %7lld %6s %6s %7lld %9s %10lld %12lld %11lld %6.1f us\n",
                  line.kernel->name.c_str(), line.kernel->kind.c_str(), line.variant->stages.size(),
                  static_cast<long long>(first.blocks), static_cast<long long>(first.threads),
                  known(line.registers).c_str(), known(line.spills).c_str(),
                  static_cast<long long>(line.sharedBytes), occupancy.c_str(),
                  static_cast<long long>(line.variant->workspaceBytes),
                  static_cast<long long>(line.kernel->flops),
                  static_cast<long long>(line.kernel->bytes), line.rooflineSeconds * 1e6);
  }
  for (const LedgerLine &line : ledger) {
    if (line.target == target && line.variant->library) {
      out << "by cuBLASLt at full length and batch, where it is installed: " << line.kernel->name
          << "\n";
    }
  }
}

} // namespace

std::string showBytes(double bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

Json describeArtifact(const Artifact &artifact) {
  const Plan &plan = artifact.plan();
  Json json = {{"name", plan.model.name},
               {"parameters", plan.model.parameters},
               {"vocabulary", plan.model.vocabulary},
               {"context", plan.model.context},
               {"batch", plan.model.batch},
               {"width", plan.model.width},
               {"seed", plan.model.seed},
               {"targets", plan.targets},
               {"training_steps", plan.trainingSteps}};
  json["proof"] = {{"verdict", plan.verdict}, {"modes", plan.modes}};
  json["tensors"] = Json::array();
  for (const Tensor &tensor : plan.tensors) {
    json["tensors"].push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", "f32"}});
  }
  json["kernels"] = Json::array();
  for (const PlanKernel &kernel : plan.kernels) {
    for (const auto &[target, variant] : kernel.variants) {
      json["kernels"].push_back({{"name", kernel.name},
                                 {"target", target},
                                 {"kind", kernel.kind},
                                 {"flops", kernel.flops},
                                 {"bytes", kernel.bytes},
                                 {"symbol", variant.symbol},
                                 {"items", variant.items},
                                 {"scratch_bytes", variant.scratchBytes}});
    }
  }
  for (const LedgerLine &line : makeLedger(plan)) {
    json["kernels"].push_back(describeLine(line));
  }
  if (!plan.factors.empty()) { // costs are those for the first factor
    json["factors"] = plan.factors;
  }
  for (const BatchShape &shape : plan.shapes) { // costs are those for the first shape
    json["batch_tokens"] = plan.batchTokens;
    json["shapes"].push_back(
        {{"rows", shape.rows}, {"context", shape.context}, {"inputs", shape.given}});
  }
  StepCosts costs = costsOfStep(plan);
  json["launches"] = {
      {"forward", costs.forward}, {"backward", costs.backward}, {"update", costs.update}};
  for (const auto &[target, stages] : costs.onGpu) {
    json["launches"][target] = {
        {"forward", stages.forward}, {"backward", stages.backward}, {"update", stages.update}};
  }
  json["step"] = {
      {"flops", costs.flops}, {"bytes", costs.bytes}, {"least_bytes", leastBytesOfStep(plan)}};
  json["memory"] = describeMemory(plan);
  if (plan.generation) {
    json["generation"] = describeGeneration(plan);
    json["states"] = describeStates(*plan.generation);
  }
  return json;
}

std::string describeForPeople(const Artifact &artifact, bool withMemory) {
  const Plan &plan = artifact.plan();
  StepCosts costs = costsOfStep(plan);
  std::ostringstream out;
  out << plan.model.name << ": " << plan.model.parameters << " parameters in "
      << plan.tensors.size() << " tensors\n";
  out << "  vocabulary " << plan.model.vocabulary << ", context " << plan.model.context
      << ", batch " << (plan.accumulate > 1 ? std::to_string(plan.accumulate) + " times " : "")
      << plan.model.batch << ", width " << plan.model.width << "\n";
  out << "  causality: "
      << (plan.verdict == "proved"       ? "proved"
          : plan.verdict == "not-proved" ? "NOT proved, and no leak was found; it was allowed"
                                         : "NOT proved, a leak was allowed");
  for (size_t i = 0; i < plan.modes.size(); ++i) {
    out << (i == 0 ? " for " : ", ") << plan.modes[i];
  }
  out << "\n  targets:";
  for (const std::string &target : plan.targets) {
    out << " " << target;
  }
  for (size_t i = 0; i < plan.factors.size(); ++i) {
    out << (i == 0 ? "\n  each step draws its factor: " : ", ") << plan.factors[i]
        << (i == 0 ? " (whose costs follow)" : "");
  }
  for (size_t i = 0; i < plan.shapes.size(); ++i) {
    const BatchShape &shape = plan.shapes[i];
    out << (i == 0
                ? "\n  batches by length, at most " + std::to_string(plan.batchTokens) + " tokens: "
                : ", ")
        << shape.rows << " x " << shape.context << (i == 0 ? " (whose costs follow)" : "");
  }
  out << "\n  launches of a training step: " << costs.forward << " forward, " << costs.backward
      << " backward, " << costs.update << " update\n";
  for (const auto &[target, stages] : costs.onGpu) {
    out << "    on " << target << ": " << stages.forward << " forward, " << stages.backward
        << " backward, " << stages.update << " update\n";
  }
  out << format("  a training step: %.3f Gflop, %s moved between launches and memory; %s "
                "with these saved activations, however many launches\n",
                costs.flops / 1e9, showBytes(costs.bytes).c_str(),
                showBytes(static_cast<double>(leastBytesOfStep(plan))).c_str());
  out << "  memory: arena " << showBytes(static_cast<double>(plan.memory.arenaBytes)) << ", peak "
      << showBytes(static_cast<double>(plan.memory.peakBytes)) << ", constants "
      << showBytes(static_cast<double>(plan.memory.constantBytes))
      << "; a process on the CPU at most "
      << showBytes(static_cast<double>(plan.memory.arenaBytes + mostProcessBytes)) << "\n";
  std::vector<std::pair<std::string, int64_t>> scales(plan.memory.byScale.begin(),
                                                      plan.memory.byScale.end());
  std::ranges::sort(scales, {}, [](const auto &each) { // numbers, the finest first
    return std::pair(each.first.size(), each.first);
  });
  for (const auto &[scale, bytes] : scales) {
    out << "    scale " << scale << ": " << showBytes(static_cast<double>(bytes)) << "\n";
  }
  for (const auto &[use, bytes] : plan.memory.byUse) {
    out << "    " << use << ": " << showBytes(static_cast<double>(bytes)) << "\n";
  }
  if (const std::optional<MemoryBudget> &budget = plan.memory.budget) {
    double flops = static_cast<double>(budget->flops);
    out << format(
        "    budget %s; without it %s; %lld launches of a step compute again, %.1f%% more "
        "operations\n",
        showBytes(static_cast<double>(budget->bytes)).c_str(),
        showBytes(static_cast<double>(budget->fullBytes)).c_str(),
        static_cast<long long>(budget->launches), 100 * flops / std::max(1.0, costs.flops - flops));
  }
  if (!artifact.kernels().empty()) {
    out << format("\n%-52s %-10s %14s %14s %8s\n", "kernel", "kind", "flops", "bytes", "items");
    for (const PlanKernel &kernel : plan.kernels) {
      out << format(
          "%-52s %-10s %14lld %14lld %8lld\n", kernel.name.c_str(), kernel.kind.c_str(),
          static_cast<long long>(kernel.flops), static_cast<long long>(kernel.bytes),
          static_cast<long long>(
              artifact.kernels()[static_cast<size_t>(&kernel - plan.kernels.data())].items));
    }
  }
  std::vector<LedgerLine> ledger = makeLedger(plan);
  for (const std::string &target : plan.gpuTargets()) {
    describeTarget(out, ledger, target);
  }
  if (plan.generation) {
    describeGenerationForPeople(out, plan);
  }
  if (withMemory) {
    out << showMemoryTable(plan);
    std::vector<Buffer> buffers = plan.buffers;
    std::sort(buffers.begin(), buffers.end(), [](const Buffer &a, const Buffer &b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.offset < b.offset;
    });
    out << format("\n%-52s %-14s %14s %14s\n", "buffer (largest first)", "class", "offset",
                  "bytes");
    for (const Buffer &buffer : buffers) {
      out << format("%-52s %-14s %14lld %14lld\n", buffer.name.c_str(), buffer.kind.c_str(),
                    static_cast<long long>(buffer.offset), static_cast<long long>(buffer.bytes));
    }
  }
  return out.str();
}

} // namespace sluice::runtime

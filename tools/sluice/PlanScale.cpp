// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sluice plan-scale: prints the predictions of runtime::ScaleModel.
#include "CommandLine.h"
#include "Commands.h"
#include "Common.h"
#include "Quantities.h"
#include "sluice/Runtime/Plan/Inspect.h"
#include "sluice/Runtime/Plan/ScaleModel.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Json.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

constexpr int64_t mostProcesses = 1 << 20, mostRows = int64_t(1) << 40, mostBuckets = 1024;

struct PlanScaleFlags {
  std::string artifact, processes, bandwidth, latency, flops, memory;
  std::string scaling = "strong", overlap = "full";
  std::vector<std::string> steps;
  int64_t rows = 0, buckets = 0;
  bool json = false;
};

/// Parses "8" to the powers of two up to 8 that divide `rows` (0: all of them), and 8 itself;
/// "1,2,6" to these numbers.
std::vector<int64_t> listProcesses(const std::string &text, int64_t rows) {
  std::vector<int64_t> all;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    std::optional<int64_t> number = findWholeNumber(text.substr(at, comma - at), 1, mostProcesses);
    if (!number || (!all.empty() && *number <= all.back())) {
      throw UserError("expected --processes P, or rising numbers P,P,..., each from 1 to " +
                      std::to_string(mostProcesses) + ", found " + quote(text));
    }
    all.push_back(*number);
    at = comma + 1;
  }
  if (all.size() > 1) {
    return all;
  }
  int64_t last = all.front();
  all.clear();
  for (int64_t number = 1; number < last; number *= 2) {
    if (rows == 0 || rows % number == 0) {
      all.push_back(number);
    }
  }
  all.push_back(last);
  return all;
}

/// Parses "ROWS=TIME".
MeasuredStep parseStep(const std::string &text) {
  size_t equals = std::min(text.find('='), text.size());
  std::optional<int64_t> rows = findWholeNumber(text.substr(0, equals), 1, mostRows);
  std::optional<double> seconds = findSeconds(text.substr(std::min(equals + 1, text.size())));
  if (!rows || !seconds) {
    throw UserError("expected --step ROWS=TIME, as in 4=1.25s or 4=1250ms, both above 0, found " +
                    quote(text));
  }
  return {*rows, *seconds};
}

Json describePoint(const ScalePoint &point) {
  return {{"processes", point.processes},
          {"rows", point.rows},
          {"compute_ms", 1e3 * point.compute},
          {"backward_ms", 1e3 * point.backward},
          {"update_ms", 1e3 * point.update},
          {"all_reduce_ms", 1e3 * point.allReduce},
          {"exposed_ms", 1e3 * point.exposed},
          {"agreement_ms", 1e3 * point.agreement},
          {"step_ms", 1e3 * point.step},
          {"tokens_per_s", point.tokensPerSecond},
          {"efficiency", point.efficiency},
          {"sent_bytes", point.sentBytes},
          {"memory_bytes", point.memoryBytes},
          {"sharded", {{"step_ms", 1e3 * point.shardedStep}, {"saved_bytes", point.savedBytes}}}};
}

Json describeTraffic(const ScaleTraffic &traffic) {
  return {{"ms", 1e3 * traffic.seconds}, {"sent_bytes", traffic.sentBytes}};
}

/// Returns the numbers of processes for which `holds`. It may hold for a range alone: more
/// processes have more latencies, and less of everything else.
template <typename Holds> Json findProcesses(const std::vector<ScalePoint> &points, Holds holds) {
  Json found = Json::array();
  for (const ScalePoint &point : points) {
    if (holds(point)) {
      found.push_back(point.processes);
    }
  }
  return found;
}

/// Returns "with 2 to 8 and 32 processes" for numbers of the table; neighbours in it form a range.
std::string describeNumbers(const Json &numbers, const Json &steps) {
  std::vector<std::string> ranges;
  int64_t first = -1, last = -1;
  auto close = [&] {
    if (first >= 0) {
      ranges.push_back(std::to_string(first) +
                       (last > first ? " to " + std::to_string(last) : std::string()));
    }
    first = -1;
  };
  for (const Json &step : steps) {
    int64_t processes = step["processes"];
    if (std::ranges::find(numbers, Json(processes)) == numbers.end()) {
      close();
      continue;
    }
    first = first < 0 ? processes : first;
    last = processes;
  }
  close();
  std::string text = "with ";
  for (size_t i = 0; i < ranges.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < ranges.size() ? ", " : " and ") + ranges[i];
  }
  return text + (text == "with 1" ? " process" : " processes");
}

Json describeScale(const Plan &plan, const ScaleModel &model, const PlanScaleFlags &flags,
                   const std::vector<ScalePoint> &points) {
  const ScaleCosts &costs = model.costs();
  int64_t most = points.back().processes;
  Json json = {{"name", plan.model.name},
               {"scaling", flags.scaling},
               {"overlap", flags.overlap},
               {"rows", model.rows()},
               {"context", plan.model.context},
               {"gradient_bytes", plan.gradientsBytes},
               {"state_bytes", model.stateBytes()},
               {"costs",
                {{"forward_ms_per_row", 1e3 * costs.forward},
                 {"backward_ms_per_row", 1e3 * costs.backward},
                 {"update_ms", 1e3 * costs.update},
                 {"other_ms", 1e3 * costs.other},
                 {"efficiency", costs.efficiency > 0 ? Json(costs.efficiency) : Json(nullptr)}}},
               {"buckets", Json::array()},
               {"steps", Json::array()},
               {"blocks", Json::array()},
               {"tensor_parallel", describeTraffic(model.predictTensorParallel(most))},
               {"sequence_parallel", describeTraffic(model.predictSequenceParallel(most))}};
  for (const ScaleBucket &bucket : model.buckets()) {
    json["buckets"].push_back({{"bytes", bucket.bytes}, {"ready", bucket.ready}});
  }
  for (const ScalePoint &point : points) {
    json["steps"].push_back(describePoint(point));
  }
  for (const ScaleBlocks &each : model.listBlocks()) {
    json["blocks"].push_back({{"axis", each.axis},
                              {"factor", each.factor},
                              {"rows", each.rows},
                              {"width", each.width},
                              {"attention", each.attention},
                              {"feed_forward", each.feedForward},
                              {"tensor_bytes", each.tensorBytes},
                              {"sequence_bytes", each.sequenceBytes}});
  }
  json["all_reduce_exceeds_backward"] = findProcesses(
      points, [](const ScalePoint &point) { return point.allReduce > point.backward; });
  json["sharding_is_faster"] =
      findProcesses(points, [](const ScalePoint &point) { return point.shardedStep < point.step; });
  return json;
}

std::string showSize(const Json &bytes) { return showBytes(bytes.get<double>()); }

/// Prints the table of numbers of processes, and where the costs of communication change.
void printSteps(const Json &json) {
  std::cout << format("\n%9s %7s %10s %9s %10s %10s %10s %10s %10s %10s %12s %12s\n", "processes",
                      "rows", "compute ms", "update ms", "all-reduce", "exposed", "step ms",
                      "tokens/s", "efficiency", "memory", "sharded: ms", "memory");
  for (const Json &row : json["steps"]) {
    auto value = [&](const char *key) { return row[key].get<double>(); };
    const Json &sharded = row["sharded"];
    std::cout << format(
        "%9lld %7lld %10.3f %9.3f %10.3f %10.3f %10.3f %10.0f %9.1f%% %10s %12.3f %12s\n",
        row["processes"].get<long long>(), row["rows"].get<long long>(), value("compute_ms"),
        value("update_ms"), value("all_reduce_ms"), value("exposed_ms"), value("step_ms"),
        value("tokens_per_s"), 100 * value("efficiency"), showBytes(value("memory_bytes")).c_str(),
        sharded["step_ms"].get<double>(),
        showBytes(value("memory_bytes") - sharded["saved_bytes"].get<double>()).c_str());
  }
  const Json &exceeds = json["all_reduce_exceeds_backward"], &faster = json["sharding_is_faster"];
  std::cout << "\nthe all-reduce takes "
            << (exceeds.empty()
                    ? std::string("no longer than the backward pass in any of these")
                    : "longer than the backward pass " + describeNumbers(exceeds, json["steps"]))
            << "\na sharded state of the optimizer (--shard) makes the step faster "
            << (faster.empty() ? std::string("in none of these")
                               : describeNumbers(faster, json["steps"]))
            << "\n";
}

/// Prints what tensor and sequence parallelism would send.
void printBlocks(const Json &json) {
  if (json["blocks"].empty()) {
    std::cout << "\nthe artifact names no layers; tensor and sequence parallelism are left out\n";
    return;
  }
  std::cout << format("\n%-16s %8s %8s %8s %10s %13s %16s %18s\n", "blocks on", "factor", "rows",
                      "width", "attention", "feed-forward", "tensor: bytes", "sequence: bytes");
  for (const Json &row : json["blocks"]) {
    auto value = [&](const char *key) { return row[key].get<long long>(); };
    std::cout << format("%-16s %8lld %8lld %8lld %10lld %13lld %16lld %18lld\n",
                        showText(row["axis"].get<std::string>()).c_str(), value("factor"),
                        value("rows"), value("width"), value("attention"), value("feed_forward"),
                        value("tensor_bytes"), value("sequence_bytes"));
  }
  auto describe = [&](const char *key) {
    return format("%.3f ms and %s", json[key]["ms"].get<double>(),
                  showSize(json[key]["sent_bytes"]).c_str());
  };
  long long most = json["steps"].back()["processes"];
  std::cout << format("bytes are those of a text and block; %lld rows among %lld processes would "
                      "take, sent by each process and not overlapped,\n"
                      "  %s with tensor parallelism, %s with sequence parallelism\n",
                      json["rows"].get<long long>(), most, describe("tensor_parallel").c_str(),
                      describe("sequence_parallel").c_str());
}

void printScale(const Json &json) {
  bool isWeak = json["scaling"] == "weak", overlaps = json["overlap"] == "full";
  const Json &costs = json["costs"];
  auto cost = [&](const char *key) { return costs[key].get<double>(); };
  std::cout << showText(json["name"].get<std::string>()) << ": "
            << format("%lld rows of %lld tokens ", json["rows"].get<long long>(),
                      json["context"].get<long long>())
            << (isWeak ? "for each process (weak scaling)"
                       : "in a step, divided among the processes (strong scaling)")
            << "; gradients are exchanged " << (overlaps ? "during" : "after")
            << " the backward pass\n  gradients " << showSize(json["gradient_bytes"]) << " in "
            << describeCount(std::ssize(json["buckets"]), "bucket") << ", state of the optimizer "
            << showSize(json["state_bytes"])
            << format("\n  a row: forward %.3f ms, backward %.3f ms; a step: update %.3f ms, "
                      "other %.3f ms",
                      cost("forward_ms_per_row"), cost("backward_ms_per_row"), cost("update_ms"),
                      cost("other_ms"))
            << (costs["efficiency"].is_null()
                    ? std::string("\n")
                    : format("; %.1f%% of the given speed\n", 100 * cost("efficiency")));
  printSteps(json);
  printBlocks(json);
  std::cout << std::flush;
}

void runPlanScale(const PlanScaleFlags &flags) {
  std::shared_ptr<const Artifact> artifact = Artifact::loadForAnyMachine(flags.artifact);
  warnOfLeak(*artifact);
  const Plan &plan = artifact->plan();
  if (flags.flops.empty() && flags.steps.empty()) {
    throw UserError("sluice plan-scale: expected --flops or --step, found neither; give the "
                    "operations a second that sluice bench prints, or a measured step");
  }
  ScaleMachine machine{
      findFlops(flags.flops).value_or(0), findBytesPerSecond(flags.memory).value_or(0),
      findBytesPerSecond(flags.bandwidth).value_or(0), findSeconds(flags.latency).value_or(0)};
  ScaleOptions options{
      flags.rows, flags.scaling == "weak", flags.overlap == "full", flags.buckets, {}};
  for (const std::string &step : flags.steps) {
    options.steps.push_back(parseStep(step));
  }
  ScaleModel model(plan, machine, options);
  std::vector<ScalePoint> points;
  for (int64_t processes : listProcesses(flags.processes, options.isWeak ? 0 : model.rows())) {
    points.push_back(model.predict(processes));
  }
  Json json = describeScale(plan, model, flags, points);
  if (flags.json) {
    printJson(json);
  } else {
    printScale(json);
  }
}

} // namespace

void registerPlanScale(CLI::App &program) {
  auto flags = std::make_shared<PlanScaleFlags>();
  CLI::App *command = program.add_subcommand(
      "plan-scale", "Predict the time of training steps on several processes");
  command->add_option("ART", flags->artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("-p,--processes", flags->processes,
                   "Processes: the powers of two up to P that divide the rows, and P; or a list")
      ->type_name("P|P,P,...")
      ->required();
  command
      ->add_option("--bandwidth", flags->bandwidth,
                   "What a process sends a second while it receives as much, as in 10GB/s, "
                   "1.5GiB/s or 100Gbit/s")
      ->type_name("BYTES/S")
      ->check(bytesPerSecond())
      ->required();
  command
      ->add_option("--latency", flags->latency,
                   "Time of a message without contents, as in 20us or 0.5ms")
      ->type_name("TIME")
      ->check(timeSpan())
      ->required();
  command
      ->add_option("--flops", flags->flops,
                   "Operations a second of a process, as in 250Gflop/s; bench prints the machine's "
                   "measured peak. Optional with --step")
      ->type_name("FLOP/S")
      ->check(flopsPerSecond());
  command
      ->add_option("--memory-bandwidth", flags->memory,
                   "What the launches of a process read and write a second: then a launch takes "
                   "the longer of the times of its operations and its bytes; default: operations "
                   "alone")
      ->type_name("BYTES/S")
      ->check(bytesPerSecond())
      ->needs("--flops");
  command
      ->add_option("--step", flags->steps,
                   "A measured step of one process, as in 4=1.25s or 4=1250ms; may be given "
                   "several times, with other rows")
      ->type_name("ROWS=TIME");
  command
      ->add_option("--rows", flags->rows,
                   "Rows of a step: of all processes together, or of each one with --scaling weak; "
                   "default: the artifact's")
      ->type_name("N")
      ->check(wholeNumber(1, mostRows));
  command
      ->add_option("--scaling", flags->scaling,
                   "strong: the rows of a step are divided among the processes; weak: each process "
                   "has as many")
      ->check(matchChoice({"strong", "weak"}));
  command
      ->add_option(
          "--overlap", flags->overlap,
          "full: each bucket of the gradients is exchanged once it is complete, during the "
          "rest of the backward pass, as train does; none: all of them after it")
      ->check(matchChoice({"none", "full"}));
  command
      ->add_option("--buckets", flags->buckets,
                   "Equal parts of the gradients that are reduced one by one; default: the "
                   "artifact's")
      ->type_name("N")
      ->check(wholeNumber(1, mostBuckets));
  command->add_flag("--json", flags->json, "Print one JSON object; times are milliseconds");
  command->callback([flags] { runPlanScale(*flags); });
}

} // namespace sluice::cli

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "BenchReport.h"
#include "Common.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Json.h"

#include <algorithm>
#include <iostream>

namespace sluice::cli {
namespace {

using namespace runtime;

/// Prints the emulator's counts, if it ran: sums of a step.
void printEmulated(const Json &json) {
  if (!json.contains("kernels") || json["kernels"].empty() ||
      !json["kernels"].front().contains("emulated")) {
    return;
  }
  std::cout << format("\n%-52s %12s %8s %10s %10s %10s\n", "kernel (a step's sum)", "bytes",
                      "planned", "sectors", "conflicts", "tensor");
  for (const Json &row : json["kernels"]) {
    const Json &counted = row["emulated"];
    auto of = [&](const char *key) { return counted[key].get<double>(); };
    std::cout << format("%-52s %12.0f %7.1f%% %9.1f%% %10.0f %9.1f%%\n",
                        row["name"].get<std::string>().c_str(), of("bytes"),
                        100 * of("bytes") / of("planned_bytes"),
                        100 * of("least_sectors") / std::max(1.0, of("sectors")),
                        of("bank_passes") - of("least_bank_passes"),
                        3200 * of("tensor_instructions") / of("instructions"));
  }
}

/// Prints the table at `key`, if there is one.
void printKernels(const Json &json, const char *key, const char *title) {
  if (!json.contains(key)) {
    return;
  }
  std::cout << format("\n%-52s %-10s %8s %10s %10s %10s %8s %7s\n", title, "kind", "launches", "ms",
                      "MB", "Gflop/s", "GB/s", "peak");
  for (const Json &row : json[key]) {
    auto value = [&](const char *name) { return row[name].get<double>(); };
    const Json &peak = row["fraction_of_peak"];
    std::cout << format("%-52s %-10s %8.2f %10.4f %10.3f %10.2f %8.2f %7s\n",
                        row["name"].get<std::string>().c_str(),
                        row["kind"].get<std::string>().c_str(), value("launches"), value("ms"),
                        value("bytes") / 1e6, value("gflops"), value("gbytes_per_s"),
                        peak.is_null() ? "-" : format("%.1f%%", 100 * peak.get<double>()).c_str());
  }
}

/// Prints the times of the stages at `key`, if there are any.
void printStages(const Json &json, const char *key, const char *title) {
  if (!json.contains(key)) {
    return;
  }
  std::cout << format("\n%-52s %10s %7s %10s %10s %10s %10s\n", title, "ms", "share", "forward",
                      "backward", "update", "shared");
  for (const Json &row : json[key]) {
    auto value = [&](const char *name) { return row[name].get<double>(); };
    std::string label = row["stage"].is_null()
                            ? "(no stage)"
                            : row["stage"].get<std::string>() + " " + row["op"].get<std::string>();
    if (row.contains("name")) {
      label += " \"" + row["name"].get<std::string>() + "\"";
    }
    std::cout << format("%-52s %10.4f %6.1f%% %10.4f %10.4f %10.4f %10.4f\n", label.c_str(),
                        value("ms"), 100 * value("share"), value("forward_ms"),
                        value("backward_ms"), value("update_ms"), value("shared_ms"));
  }
}

} // namespace

void printBench(const Json &json, const Executor &executor) {
  auto value = [&](const char *key) { return json[key].get<double>(); };
  bool hasPeak = !json["fraction_of_peak"].is_null();
  std::cout << format("step            %.3f ms (median; %s, %s)\n", value("step_ms"),
                      executor.target().c_str(), executor.describeDevice().c_str())
            << (json.contains("factor")
                    ? format("factor          %lld\n", json["factor"].get<long long>())
                    : std::string())
            << format("tokens          %.0f a second\n", value("tokens_per_s"))
            << format("arithmetic      %.1f Gflop/s", value("gflops"))
            << (hasPeak ? format(", %.1f%% of the peak of %.1f (%s)\ncopy bandwidth  %.1f GB/s\n",
                                 100 * value("fraction_of_peak"), value("peak_gflops"),
                                 json["peak_source"].get<std::string>().c_str(),
                                 value("peak_gbytes_per_s"))
                        : std::string("\n"))
            << format("kernels         %.1f%% of the step's time\n",
                      100 * value("kernel_fraction"));
  if (json.contains("shortening_factor")) {
    std::cout << describeShortening(json["shortening_factor"]);
  }
  if (json.contains("recomputed_tokens_per_s")) {
    std::cout << format("generation      %.1f tokens a second, recomputing everything\n",
                        value("recomputed_tokens_per_s"));
    if (!json["cached_tokens_per_s"].is_null()) {
      const Json &times = json["generation_step_ms"];
      std::cout << format("                %.1f step by step; prompts %.0f; states of %.1f MB\n",
                          value("cached_tokens_per_s"), value("prefill_tokens_per_s"),
                          value("state_bytes") / 1e6)
                << format("                a step takes %.3f ms (median; %.3f ms or less in one of "
                          "ten)\n",
                          times["median"].get<double>(), times["tenth"].get<double>());
    }
    if (json.contains("fraction_of_bandwidth")) {
      std::cout << format("                a step reads %.1f MB: %.1f%% of the bandwidth of %.1f "
                          "GB/s (measured)\n",
                          value("step_bytes") / 1e6, 100 * value("fraction_of_bandwidth"),
                          value("read_gbytes_per_s"));
    }
  }
  printKernels(json, "kernels", "kernel (a training step's sum)");
  printKernels(json, "step_kernels", "kernel (a token's sum)");
  printStages(json, "stages", "stage (a training step's sum)");
  printStages(json, "step_stages", "stage (a token's sum)");
  printEmulated(json);
  std::cout << std::flush;
}

} // namespace sluice::cli

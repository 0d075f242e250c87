// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TrainProgress.h"

#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Format.h"

namespace sluice::cli {
namespace {

using runtime::Plan;

/// "  words 5.123 tokens/segment" for each name of segments.
std::string describeFactors(const nlohmann::json &metrics, const char *key) {
  std::string text;
  const nlohmann::json factors = metrics.value(key, nlohmann::json::object());
  for (const auto &[name, factor] : factors.items()) {
    text += factor.is_null()
                ? "  no segments of " + name
                : format("  %s %.3f tokens/segment", name.c_str(), factor.get<double>());
  }
  return text;
}

/// "bits/byte 2.3456" after `lead`, of the keys that begin with `prefix`; empty without a number.
std::string describeBits(const nlohmann::json &metrics, const std::string &prefix,
                         const std::string &lead) {
  std::string unit = runtime::findLossUnit(metrics, prefix);
  return unit.empty()
             ? ""
             : lead + format("bits/%s %.4f", unit.c_str(), metrics[prefix + unit].get<double>());
}

std::string describe(const nlohmann::json &metrics, int64_t steps, const Plan &plan) {
  auto value = [&](const char *key) {
    return metrics.contains(key) ? metrics[key].get<double>() : 0.0;
  };
  std::string text =
      format("step %lld/%lld  ", static_cast<long long>(metrics["step"].get<int64_t>()),
             static_cast<long long>(steps)) +
      (metrics["loss"].is_null() ? "no loss" : format("loss %.4f", value("loss")));
  text += describeBits(metrics, "bits_per_", "  "); // none if the labels are not the text's
  text += format("  lr %.2e", value("learning_rate"));
  const nlohmann::json rates = metrics.value("group_rates", nlohmann::json::object());
  for (const auto &[match, rate] : rates.items()) {
    text += format(", %s %.2e", match.c_str(), rate.get<double>());
  }
  text += format("  norm %.3f", value("grad_norm"));
  if (metrics.contains("factor")) {
    text += format("  factor %lld", metrics["factor"].get<long long>());
  }
  const nlohmann::json losses = metrics.value("losses", nlohmann::json::object());
  for (const auto &[name, mean] : losses.items()) {
    text += plan.findSegmentFacts(name) ? ""
            : mean.is_null()            ? "  no " + name
                                        : format("  %s %.4f", name.c_str(), mean.get<double>());
  }
  const nlohmann::json chunks = metrics.value("chunks", nlohmann::json::object());
  for (const auto &[name, count] : chunks.items()) {
    text += format("  %lld chunks", count.get<long long>()) +
            (chunks.size() > 1 || !losses.empty() ? " of " + name : "");
  }
  text += describeFactors(metrics, "shortening_factor");
  if (metrics.contains("tokens_per_s")) {
    text += format("  %.0f tokens/s", value("tokens_per_s"));
  }
  if (metrics.contains("eval_loss")) {
    text += "  held out:";
    text +=
        metrics["eval_loss"].is_null() ? " no chunk" : describeBits(metrics, "eval_bits_per_", " ");
    if (!metrics["eval_loss"].is_null() && !metrics.contains("eval_bits_per_byte")) {
      text += format("  perplexity %.2f", value("eval_perplexity"));
    }
    if (metrics.contains("eval_characters")) { // else the number does not exist
      text += format("  bits/character %.4f", value("eval_bits_per_character"));
    }
    text += describeFactors(metrics, "eval_shortening_factor");
  }
  return text;
}

} // namespace

void TrainProgress::showStep(const nlohmann::json &metrics, int64_t steps) {
  int64_t step = metrics["step"];
  double share = static_cast<double>(step) / static_cast<double>(steps);
  std::string text = describe(metrics, steps, plan);
  bool isKept = isFirst || step == steps || metrics.contains("eval_loss") || progress.isLineDue();
  isFirst = false;
  if (isKept) {
    std::string rest = progress.describeRest(share);
    progress.plainLine(text + (rest.empty() ? "" : "  " + rest));
  }
  progress.draw(share, text);
}

void TrainProgress::showPart(int64_t step, int64_t steps, const std::string &what, double share,
                             bool isStep) {
  double done = (static_cast<double>(step) + (isStep ? share : 0)) / static_cast<double>(steps);
  std::string text = format("step %lld/%lld  %s %.0f%%", static_cast<long long>(step + isStep),
                            static_cast<long long>(steps), what.c_str(), share * 100);
  if (progress.isLineDue()) {
    std::string rest = progress.describeRest(done);
    progress.plainLine(text + (rest.empty() ? "" : "  " + rest));
  }
  progress.draw(done, text);
}

} // namespace sluice::cli

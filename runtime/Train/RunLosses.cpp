// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/RunLosses.h"

#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace sluice::runtime {
namespace {

constexpr double anyNumber = std::numeric_limits<double>::lowest();

Json measuredToJson(const std::optional<MeasuredLoss> &loss) {
  return loss ? Json{{"step", loss->step}, {"loss", loss->nats}} : Json(nullptr);
}

std::optional<MeasuredLoss> parseMeasured(const StrictJson &json) {
  if (json.isNull()) {
    return std::nullopt;
  }
  json.keys({"step", "loss"});
  return MeasuredLoss{json.at("step").integer(), json.at("loss").number(anyNumber)};
}

/// Returns the minimum of the moving average in the run plus the margin of divergence.
std::optional<double> computeBound(const std::vector<CheckpointLosses> &checkpoints) {
  std::optional<double> bound;
  for (const CheckpointLosses &each : checkpoints) {
    if (each.losses) {
      double own = each.losses->trend.bound();
      bound = bound ? std::min(*bound, own) : own;
    }
  }
  return bound;
}

} // namespace

double RunLosses::quality() const {
  bool hasRecovered = own && *own <= trend.best;
  return hasRecovered ? *own : std::max(trend.average, own.value_or(trend.average));
}

Json toJson(const RunLosses &losses) {
  const LossTrend &trend = losses.trend;
  const HeldOutTrend &heldOut = losses.heldOut;
  return {{"margin", trend.margin},
          {"count", trend.losses},
          {"average", trend.average},
          {"best", trend.best},
          {"best_step", trend.bestStep},
          {"above", trend.above},
          {"diverged_since", trend.since},
          {"own", losses.own ? Json(*losses.own) : Json(nullptr)},
          {"held_out",
           {{"last", measuredToJson(heldOut.last)},
            {"best", measuredToJson(heldOut.best)},
            {"worse", heldOut.worse},
            {"text", heldOut.text}}}};
}

RunLosses parseRunLosses(const StrictJson &json) {
  json.keys({"margin", "count", "average", "best", "best_step", "above", "diverged_since", "own",
             "held_out"});
  RunLosses losses;
  losses.trend = {json.at("margin").number(0),          json.at("count").integer(),
                  json.at("average").number(anyNumber), json.at("best").number(anyNumber),
                  json.at("best_step").integer(),       json.at("above").integer(),
                  json.at("diverged_since").integer()};
  if (StrictJson own = json.at("own"); !own.isNull()) {
    losses.own = own.number(anyNumber);
  }
  StrictJson heldOut = json.at("held_out");
  heldOut.keys({"last", "best", "worse", "text"});
  losses.heldOut = {parseMeasured(heldOut.at("last")), parseMeasured(heldOut.at("best")),
                    heldOut.at("worse").integer(), heldOut.at("text").string()};
  return losses;
}

std::optional<double> CheckpointLosses::heldOut() const {
  bool isOwn = losses && losses->heldOut.last && losses->heldOut.last->step == step;
  return isOwn ? std::optional(losses->heldOut.last->nats) : std::nullopt;
}

std::vector<CheckpointLosses> readCheckpointLosses(const Path &run) {
  std::vector<CheckpointLosses> list;
  int64_t latest = latestStep(run);
  for (int64_t step : checkpointSteps(run)) {
    if (step > latest) {
      break;
    }
    CheckpointLosses &each = list.emplace_back(CheckpointLosses{step, std::nullopt});
    try {
      each.losses = readTrainingState(run, step).losses;
    } catch (const UserError &) { // a damaged checkpoint, or one that was removed concurrently
    }
    if (each.losses && each.losses->trend.losses == 0) {
      each.losses.reset();
    }
  }
  return list;
}

const CheckpointLosses *chooseSound(const std::vector<CheckpointLosses> &checkpoints) {
  std::optional<double> bound = computeBound(checkpoints);
  double least = HUGE_VAL, margin = 0;
  const CheckpointLosses *unknown = nullptr;
  for (const CheckpointLosses &each : checkpoints) {
    if (!each.losses) {
      unknown = &each;
    } else if (each.losses->quality() <= *bound) {
      least = std::min(least, each.losses->quality());
      margin = each.losses->trend.margin;
    }
  }
  for (size_t i = checkpoints.size(); i-- > 0;) {
    const std::optional<RunLosses> &losses = checkpoints[i].losses;
    if (losses && losses->quality() <= std::min(*bound, least + margin / 10)) {
      return &checkpoints[i];
    }
  }
  return unknown;
}

const CheckpointLosses *chooseBest(const std::vector<CheckpointLosses> &checkpoints) {
  const CheckpointLosses *heldOut = nullptr, *trained = nullptr;
  for (const CheckpointLosses &each : checkpoints) {
    if (each.heldOut() && (!heldOut || *each.heldOut() < *heldOut->heldOut())) {
      heldOut = &each;
    }
    if (each.losses && (!trained || each.losses->trend.average <= trained->losses->trend.average)) {
      trained = &each;
    }
  }
  return heldOut ? heldOut : trained;
}

std::string describeCheckpoint(const CheckpointLosses &checkpoint) {
  std::string text = "step " + std::to_string(checkpoint.step);
  if (!checkpoint.losses) {
    return text;
  }
  const RunLosses &losses = *checkpoint.losses;
  return text + format(" (loss %.4g)", losses.own.value_or(losses.trend.average));
}

std::string describeWorseLatest(const Path &run) {
  std::vector<CheckpointLosses> list = readCheckpointLosses(run);
  if (list.empty() || !list.back().losses) {
    return "";
  }
  const CheckpointLosses &latest = list.back();
  const CheckpointLosses *sound = chooseSound(list);
  auto take = [&](int64_t step) {
    return "; " + (run / "checkpoints" / std::to_string(step)).string() +
           " has the weights of step " + std::to_string(step);
  };
  std::string start = "note: " + run.string() + ": the latest checkpoint, that of ";
  bool hasLowerLoss = sound && sound->losses && latest.losses->own && sound->losses->own &&
                      *latest.losses->own <= *sound->losses->own;
  if (latest.losses->quality() > *computeBound(list) && !hasLowerLoss) {
    const LossTrend &trend = latest.losses->trend;
    return start + describeCheckpoint(latest) +
           (sound && sound->losses
                ? ", is far worse than that of " + describeCheckpoint(*sound) + take(sound->step)
                : format(
                      ", has diverged, and no checkpoint is good: the loss was %.4g at step %lld",
                      trend.best, static_cast<long long>(trend.bestStep)));
  }
  const CheckpointLosses *best = chooseBest(list);
  const std::optional<MeasuredLoss> &last = latest.losses->heldOut.last;
  bool isMeasured =
      best && best->heldOut() && last && best->losses->heldOut.text == latest.losses->heldOut.text;
  auto isOfChunks = [](const Json &line) {
    return findLossUnit(line, "eval_bits_per_") == "chunk";
  };
  if (isMeasured && last->nats - *best->heldOut() > std::abs(*best->heldOut()) / 10) {
    return start + "step " + std::to_string(latest.step) +
           format(", is far worse than that of step %lld: held-out text had %.4f bits per %s "
                  "after step %lld and %.4f after step %lld",
                  static_cast<long long>(best->step), last->nats / std::numbers::ln2,
                  std::ranges::any_of(readLines(run / "metrics.jsonl"), isOfChunks) ? "chunk"
                                                                                    : "token",
                  static_cast<long long>(last->step), *best->heldOut() / std::numbers::ln2,
                  static_cast<long long>(best->step)) +
           take(best->step);
  }
  return "";
}

} // namespace sluice::runtime

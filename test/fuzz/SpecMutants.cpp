// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Mutants.h"
#include "sluice/Support/Json.h"

#include <nlohmann/json.hpp>

using namespace sluice::fuzz;
using sluice::OrderedJson;

namespace {

/// Edits a stage; returns false if the edit does not apply.
using Edit = bool (*)(OrderedJson &stages, size_t at);

bool is(const OrderedJson &stages, size_t at, const char *op) {
  return at < stages.size() && stages[at]["op"] == op;
}

int64_t by(const OrderedJson &stage) { return stage["by"].get<int64_t>(); }

bool shiftOneLess(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "shift") || by(stages[at]) == 0) {
    return false;
  }
  stages[at]["by"] = by(stages[at]) - 1;
  return true;
}

bool shiftDropped(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "shift") || by(stages[at]) == 0) {
    return false;
  }
  stages[at]["by"] = 0;
  return true;
}

/// The first shortening after a shift determines the number of positions per coarse position.
bool shiftInCoarseUnits(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "shift") || by(stages[at]) == 0) {
    return false;
  }
  for (size_t i = at + 1; i < stages.size(); ++i) {
    if (is(stages, i, "shorten") && stages[i]["factor"] != 1) {
      stages[at]["by"] = by(stages[at]) / stages[i]["factor"].get<int64_t>();
      return true;
    }
  }
  return false;
}

bool moveShiftAfterShortening(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "shift") || !is(stages, at + 1, "shorten") ||
      stages[at + 1].contains("from") || stages[at].contains("to")) {
    return false;
  }
  int64_t k = stages[at + 1]["factor"];
  OrderedJson shift = stages[at];
  shift["by"] = by(shift) / k;
  std::swap(stages[at], stages[at + 1]);
  stages[at + 1] = shift;
  if (shift.contains("from")) {
    stages[at]["from"] = shift["from"];
    stages[at + 1].erase("from");
  }
  if (stages[at].contains("to")) {
    stages[at + 1]["to"] = stages[at]["to"];
    stages[at].erase("to");
  }
  return true;
}

bool insertAfterShift(OrderedJson &stages, size_t at, OrderedJson stage) {
  if (!is(stages, at, "shift") || !is(stages, at + 1, "shorten") ||
      stages[at + 1].contains("from")) {
    return false;
  }
  stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(stage));
  return true;
}

bool normBetween(OrderedJson &stages, size_t at) {
  return insertAfterShift(stages, at, {{"op", "norm"}});
}

bool dropoutBetween(OrderedJson &stages, size_t at) {
  return insertAfterShift(stages, at, {{"op", "dropout"}, {"rate", 0.25}});
}

bool moveShiftBeforePreviousStage(OrderedJson &stages, size_t at) {
  if (at < 2 || !is(stages, at, "shift") || stages[at].contains("from") ||
      stages[at].contains("to") || stages[at - 1].contains("to") ||
      (!is(stages, at - 1, "layer") && !is(stages, at - 1, "norm"))) {
    return false;
  }
  if (stages[at - 1].contains("from")) {
    stages[at]["from"] = stages[at - 1]["from"];
    stages[at - 1].erase("from");
  }
  std::swap(stages[at], stages[at - 1]);
  return true;
}

bool bidirectional(OrderedJson &stages, size_t at) {
  std::string op = stages[at]["op"];
  if ((op != "layer" && op != "layers" && op != "hourglass") ||
      stages[at].value("mask", OrderedJson()) == "bidirectional") {
    return false;
  }
  stages[at]["mask"] = "bidirectional";
  if (stages[at].contains("relative")) { // there are no distances of later keys
    stages[at]["relative"] = "none";
  }
  return true;
}

bool overrideDropped(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "hourglass")) {
    return false;
  }
  stages[at]["shift"] = 0;
  return true;
}

/// Factor of the first level below the stage's input, less 2.
bool overrideOneLess(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "hourglass")) {
    return false;
  }
  std::string hierarchy = stages[at]["hierarchy"];
  size_t space = hierarchy.find(' ');
  if (space == std::string::npos) {
    return false;
  }
  int64_t k = std::stoll(hierarchy.substr(hierarchy.find('@', space) + 1));
  stages[at]["shift"] = std::max<int64_t>(0, k - 2);
  return true;
}

/// The groups grow by one, the shift does not.
bool largerFactor(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "shorten")) {
    return false;
  }
  for (size_t i = at + 1; i < stages.size(); ++i) {
    if (is(stages, i, "upsample") && stages[i]["factor"] == stages[at]["factor"]) {
      int64_t k = stages[at]["factor"].get<int64_t>() + 1;
      stages[at]["factor"] = stages[i]["factor"] = k;
      stages[i].erase("window"); // no integer number of groups
      return true;
    }
  }
  return false;
}

/// Exchanges the factors of two shortenings and of their upsamplings, but not the shifts.
bool factorsExchanged(OrderedJson &stages, size_t at) {
  if (!is(stages, at, "shorten")) {
    return false;
  }
  for (size_t i = at + 1; i < stages.size(); ++i) {
    if (!is(stages, i, "shorten") || stages[i]["factor"] == stages[at]["factor"]) {
      continue;
    }
    OrderedJson outer = stages[at]["factor"], inner = stages[i]["factor"];
    for (OrderedJson &stage : stages) {
      if (stage["op"] == "shorten" || stage["op"] == "upsample") {
        stage["factor"] = stage["factor"] == outer   ? inner
                          : stage["factor"] == inner ? outer
                                                     : stage["factor"];
        if (stage["op"] == "upsample") {
          stage.erase("window");
        }
      }
    }
    return true;
  }
  return false;
}

bool readsTheUnshifted(OrderedJson &stages, size_t at) {
  if (at == 0 || !is(stages, at, "shorten") || stages[at].contains("from") ||
      !is(stages, at - 1, "shift")) {
    return false;
  }
  stages.erase(at - 1);
  return true;
}

/// Replaces a block of two by its mean.
bool blockMeans(OrderedJson &stages, size_t at) {
  std::string op = stages[at]["op"];
  if (op == "head" || op == "shift" || op == "upsample") {
    return false;
  }
  OrderedJson up = {{"op", "upsample"}, {"factor", 2}};
  if (stages[at].contains("to")) {
    up["to"] = stages[at]["to"];
    stages[at].erase("to");
  }
  auto next = stages.begin() + static_cast<std::ptrdiff_t>(at) + 1;
  OrderedJson down = {{"op", "shorten"}, {"factor", 2}};
  next = stages.insert(next, down);
  stages.insert(next + 1, up);
  return true;
}

constexpr std::pair<const char *, Edit> edits[] = {
    {"shift one less", shiftOneLess},
    {"shift dropped", shiftDropped},
    {"shift in the coarse scale's units", shiftInCoarseUnits},
    {"shift behind the shortening", moveShiftAfterShortening},
    {"norm between shift and shortening", normBetween},
    {"dropout between shift and shortening", dropoutBetween},
    {"shift before the stage before", moveShiftBeforePreviousStage},
    {"mask bidirectional", bidirectional},
    {"hourglass without shifts", overrideDropped},
    {"hourglass shift one less", overrideOneLess},
    {"factor one more", largerFactor},
    {"factors exchanged", factorsExchanged},
    {"shortening of the unshifted", readsTheUnshifted},
    {"block means", blockMeans},
};

} // namespace

std::vector<Mutant> sluice::fuzz::mutateSpec(const std::string &text) {
  OrderedJson spec = OrderedJson::parse(text);
  std::vector<Mutant> mutants;
  for (size_t at = 0; at < spec["stages"].size(); ++at) {
    for (auto [name, edit] : edits) {
      OrderedJson mutant = spec;
      if (edit(mutant["stages"], at) && mutant != spec && isValidSpec(mutant.dump())) {
        mutants.push_back({name, mutant.dump(1)});
      }
    }
  }
  return mutants;
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Quantities.h"

#include "sluice/Support/Text.h"

#include <charconv>
#include <cmath>
#include <map>

namespace sluice::cli {
namespace {

/// Factors by unit. Numbers without a unit are rejected unless "" is one.
using Units = std::map<std::string, double>;

/// Returns units with the prefixes of a thousand, `scale` for the one without a prefix.
Units decimalUnits(const std::string &unit, double scale) {
  Units units;
  double factor = scale;
  for (const char *prefix : {"", "k", "M", "G", "T", "P"}) {
    units[prefix + unit] = factor;
    factor *= 1e3;
  }
  return units;
}

const Units &bandwidthUnits() {
  static const Units units = [] {
    Units all = decimalUnits("B/s", 1);
    all.merge(decimalUnits("bit/s", 1.0 / 8));
    double factor = 1;
    for (const char *prefix : {"Ki", "Mi", "Gi", "Ti"}) {
      factor *= 1024;
      all[std::string(prefix) + "B/s"] = factor;
    }
    return all;
  }();
  return units;
}

const Units &timeUnits() {
  static const Units units = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  return units;
}

const Units &flopUnits() {
  static const Units units = [] {
    Units all = decimalUnits("flop/s", 1);
    all[""] = 1; // the only unit
    return all;
  }();
  return units;
}

/// Parses a decimal number above 0 and a unit.
std::optional<double> findQuantity(const std::string &text, const Units &units) {
  double number = 0;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  auto unit = units.find(std::string(rest, end));
  double value = error == std::errc() && unit != units.end() ? number * unit->second : 0;
  return value > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

CLI::Validator accept(const Units &units, const char *expected) {
  return {[&units, expected](std::string &text) {
            return findQuantity(text, units)
                       ? std::string()
                       : std::string("expected ") + expected + ", found " + quote(text);
          },
          "", ""};
}

} // namespace

std::optional<double> findBytesPerSecond(const std::string &text) {
  return findQuantity(text, bandwidthUnits());
}

std::optional<double> findSeconds(const std::string &text) {
  return findQuantity(text, timeUnits());
}

std::optional<double> findFlops(const std::string &text) { return findQuantity(text, flopUnits()); }

std::optional<int64_t> findWholeNumber(const std::string &text, int64_t least, int64_t most) {
  int64_t number = 0;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  bool isNumber = error == std::errc() && rest == end && number >= least && number <= most;
  return isNumber ? std::optional(number) : std::nullopt;
}

CLI::Validator bytesPerSecond() {
  return accept(bandwidthUnits(),
                "a bandwidth above 0 with its unit, such as 10GB/s, 1.5GiB/s or 100Gbit/s");
}

CLI::Validator timeSpan() {
  return accept(timeUnits(), "a time above 0 with its unit, such as 20us, 1.5ms or 2s");
}

CLI::Validator flopsPerSecond() {
  return accept(flopUnits(), "a speed above 0 such as 250Gflop/s, 312Tflop/s or 2.5e11 "
                             "(operations a second)");
}

} // namespace sluice::cli

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Device/Tuning.h"

#include "Plan/ProductJson.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/OutputFile.h"

namespace sluice::runtime {
namespace {

nlohmann::ordered_json describe(const TunedProduct &tuned) {
  const Product &product = tuned.product;
  nlohmann::ordered_json json = {{"target", tuned.target},
                                 {"rows", product.rows},
                                 {"columns", product.columns},
                                 {"depth", product.depth},
                                 {"by_input", product.byInput},
                                 {"type", getTypeName(product.type)},
                                 {"generated_us", tuned.generatedSeconds * 1e6},
                                 {"library_us", nullptr},
                                 {"winner", tuned.libraryWins ? "library" : "generated"}};
  if (tuned.librarySeconds) {
    json["library_us"] = *tuned.librarySeconds * 1e6;
    json["algorithm"] = showAlgorithm(tuned.algorithm);
  }
  return json;
}

TunedProduct readProduct(const StrictJson &json) {
  json.keys({"target", "rows", "columns", "depth", "by_input", "type", "generated_us", "library_us",
             "winner"},
            {"algorithm"});
  TunedProduct tuned;
  tuned.target = json.at("target").matchChoice({"sm_80", "sm_90a"});
  tuned.product = readShape(json);
  tuned.generatedSeconds = json.at("generated_us").number(0) / 1e6;
  if (!json.at("library_us").isNull()) {
    tuned.librarySeconds = json.at("library_us").number(0) / 1e6;
  }
  tuned.libraryWins = json.at("winner").matchChoice({"generated", "library"}) == "library";
  if (tuned.librarySeconds.has_value() != json.has("algorithm")) {
    json.fail("\"algorithm\" where \"library_us\" is a number, and only there",
              json.has("algorithm") ? "null with an algorithm" : "a number with none");
  }
  if (tuned.libraryWins && !tuned.librarySeconds) {
    json.at("winner").failType("\"generated\", for the library was not timed");
  }
  if (json.has("algorithm")) {
    tuned.algorithm = readAlgorithm(json.at("algorithm"));
  }
  return tuned;
}

} // namespace

std::string showAlgorithm(const Algorithm &algorithm) {
  std::string text;
  for (uint64_t number : algorithm) {
    text += format("%016llx", static_cast<unsigned long long>(number));
  }
  return text;
}

Tuning readTuning(const Path &path) {
  static const std::string remedy = "; write it anew with sluice bench --device cuda --tune";
  requireKind(path, FileKind::Tuning, "a tuning file");
  std::string text = readText(path, "tuning file");
  nlohmann::json parsed = readJson(text, path.string(), "a tuning file", remedy);
  StrictJson json(parsed, path.string() + ": tuning", remedy);
  json.object();
  if (!json.has("format") || !json.has("version")) {
    json.fail("the keys \"format\" and \"version\" of a tuning file", "another JSON object");
  }
  json.at("format").matchChoice({"sluice-tuning"});
  json.at("version").integer(1, 1);
  json.keys({"format", "version", "gpu", "driver", "library", "products"});
  Tuning tuning;
  tuning.gpu = json.at("gpu").string();
  tuning.driverVersion = json.at("driver").integer(1);
  StrictJson library = json.at("library");
  library.keys({"name", "version"});
  library.at("name").matchChoice({"cublaslt"});
  tuning.libraryVersion = library.at("version").integer(1);
  for (const StrictJson &each : json.at("products").array()) {
    TunedProduct tuned = readProduct(each);
    for (const TunedProduct &other : tuning.products) {
      if (other.target == tuned.target && other.product.isSameShape(tuned.product)) {
        each.fail("each product once", "one again");
      }
    }
    tuning.products.push_back(std::move(tuned));
  }
  return tuning;
}

void writeTuning(const Path &path, const Tuning &tuning) {
  nlohmann::ordered_json json = {
      {"format", "sluice-tuning"},
      {"version", 1},
      {"gpu", tuning.gpu},
      {"driver", tuning.driverVersion},
      {"library", {{"name", "cublaslt"}, {"version", tuning.libraryVersion}}},
      {"products", nlohmann::ordered_json::array()}};
  for (const TunedProduct &tuned : tuning.products) {
    json["products"].push_back(describe(tuned));
  }
  replaceFile(
      path,
      asBytes(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
}

} // namespace sluice::runtime

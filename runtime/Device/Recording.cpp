// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Device/Recording.h"

#include "sluice/Support/Hash.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/StrictJson.h"

#include <cstring>
#include <map>

namespace sluice::runtime {
namespace {

constexpr char magic[8] = {'S', 'L', 'U', 'I', 'C', 'R', 'E', 'C'};
constexpr uint64_t version = 3;
constexpr size_t headerBytes = 24; // magic, version, size of the JSON
const std::string remedy = "; record the bundle again with this version of sluice";

/// Collects the bytes after the JSON; stores equal byte strings once.
class BlobWriter {
public:
  /// Returns [offset, size].
  Json add(std::span<const uint8_t> bytes) {
    auto [place, isNew] = known.try_emplace(sha256(bytes), all.size());
    if (isNew) {
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return {place->second, bytes.size()};
  }
  Json add(const std::vector<float> &numbers) {
    return add(std::span(reinterpret_cast<const uint8_t *>(numbers.data()),
                         numbers.size() * sizeof(float)));
  }
  const std::vector<uint8_t> &bytes() const { return all; }

private:
  std::vector<uint8_t> all;
  std::map<Sha256, size_t> known;
};

Json toJson(const RecordedLaunch &launch, BlobWriter &blobs) {
  Json operands = Json::array(), results = Json::array();
  for (const std::vector<uint8_t> &operand : launch.operands) {
    operands.push_back(blobs.add(operand));
  }
  for (const RecordedResult &result : launch.results) {
    results.push_back({{"type", getTypeName(result.type)},
                       {"rows", result.rows},
                       {"stride", result.stride},
                       {"values", blobs.add(result.values)},
                       {"bounds", blobs.add(result.bounds)},
                       {"sums", blobs.add(result.sums)},
                       {"sum_bounds", blobs.add(result.sumBounds)},
                       {"found", blobs.add(result.found)},
                       {"before", blobs.add(result.before)}});
  }
  return {{"entry", launch.entry},           {"index", launch.index},
          {"scalars", launch.scalars},       {"lengths", launch.lengths},
          {"operands", std::move(operands)}, {"results", std::move(results)}};
}

/// Reads a file's JSON and the bytes after it.
class RecordingReader {
public:
  RecordingReader(const Path &path) : origin(path.string()), file(readBytes(path, "recording")) {
    if (file.size() < headerBytes || std::memcmp(file.data(), magic, sizeof magic) != 0) {
      throw UserError(origin + ": expected a recording of launches, found another file" + remedy);
    }
    if (uint64_t found = number(8); found != version) {
      throw UserError(origin + ": expected a recording of version " + std::to_string(version) +
                      ", found version " + std::to_string(found) + remedy);
    }
    uint64_t bytes = number(16);
    const auto *text = reinterpret_cast<const char *>(file.data()) + headerBytes;
    if (bytes > file.size() - headerBytes) {
      throw UserError(origin + ": expected a whole recording, found one that is cut short" +
                      remedy);
    }
    json = readJson({text, bytes}, origin, "a whole recording", remedy);
    firstBlob = headerBytes + bytes;
  }

  Recording read() const {
    StrictJson root(json, origin, remedy);
    root.keys({"artifact", "device", "launches"});
    Recording recording{root.at("artifact").string(), root.at("device").string(), {}};
    for (const StrictJson &launch : root.at("launches").array()) {
      recording.launches.push_back(readLaunch(launch));
    }
    return recording;
  }

private:
  uint64_t number(size_t at) const {
    uint64_t value = 0;
    std::memcpy(&value, file.data() + at, sizeof value);
    return value;
  }

  std::vector<uint8_t> blob(const StrictJson &place) const {
    std::vector<int64_t> ends = place.integers(0);
    auto rest = static_cast<int64_t>(file.size() - firstBlob);
    if (ends.size() != 2 || ends[0] > rest || ends[1] > rest - ends[0]) {
      place.failType("[offset, bytes] inside the file");
    }
    auto from = file.begin() + static_cast<int64_t>(firstBlob) + ends[0];
    return {from, from + ends[1]};
  }

  std::vector<float> floats(const StrictJson &place) const {
    std::vector<uint8_t> bytes = blob(place);
    std::vector<float> numbers(bytes.size() / sizeof(float));
    if (!numbers.empty()) { // otherwise both pointers may be null
      std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
    }
    return numbers;
  }

  RecordedLaunch readLaunch(const StrictJson &node) const {
    node.keys({"entry", "index", "scalars", "lengths", "operands", "results"});
    RecordedLaunch launch;
    launch.entry = node.at("entry").string();
    launch.index = node.at("index").integer();
    std::vector<int64_t> scalars = node.at("scalars").integers(0);
    if (scalars.size() != launch.scalars.size()) {
      node.at("scalars").failType("length, rows, step and seed");
    }
    std::copy(scalars.begin(), scalars.end(), launch.scalars.begin());
    launch.lengths = node.at("lengths").integers(0);
    for (const StrictJson &operand : node.at("operands").array()) {
      launch.operands.push_back(blob(operand));
    }
    for (const StrictJson &result : node.at("results").array()) {
      launch.results.push_back(readResult(result));
    }
    return launch;
  }

  RecordedResult readResult(const StrictJson &node) const {
    node.keys(
        {"type", "rows", "stride", "values", "bounds", "sums", "sum_bounds", "found", "before"});
    RecordedResult result;
    std::string type = node.at("type").matchChoice({"f32", "bf16", "i32", "i64"});
    for (Type each : {Type::f32, Type::bf16, Type::i32, Type::i64}) {
      result.type = getTypeName(each) == type ? each : result.type;
    }
    result.rows = node.at("rows").integer();
    result.stride = node.at("stride").integer();
    result.values = floats(node.at("values"));
    result.bounds = floats(node.at("bounds"));
    result.sums = floats(node.at("sums"));
    result.sumBounds = floats(node.at("sum_bounds"));
    result.found = blob(node.at("found"));
    result.before = blob(node.at("before"));
    size_t elements = result.found.size() / static_cast<size_t>(getByteSize(result.type));
    bool isWhole = result.before.empty() || result.before.size() == result.found.size();
    if (!isWhole || result.values.size() != result.bounds.size() ||
        result.values.size() > elements || result.sums.size() != result.sumBounds.size() ||
        result.sums.size() > static_cast<size_t>(result.stride) ||
        (!result.sums.empty() &&
         static_cast<size_t>(result.rows) > elements / static_cast<size_t>(result.stride))) {
      node.fail("numbers for the elements of a result", "others");
    }
    return result;
  }

  std::string origin;
  std::vector<uint8_t> file;
  Json json;
  size_t firstBlob = 0;
};

} // namespace

void writeRecording(const Path &path, const Recording &recording) {
  BlobWriter blobs;
  Json launches = Json::array();
  for (const RecordedLaunch &launch : recording.launches) {
    launches.push_back(toJson(launch, blobs));
  }
  std::string text = Json{{"artifact", recording.artifact},
                          {"device", recording.device},
                          {"launches", std::move(launches)}}
                         .dump();
  std::vector<uint8_t> file(magic, magic + sizeof magic);
  for (uint64_t number : {version, static_cast<uint64_t>(text.size())}) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&number);
    file.insert(file.end(), bytes, bytes + sizeof number);
  }
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), blobs.bytes().begin(), blobs.bytes().end());
  replaceFile(path, file);
}

Recording readRecording(const Path &path) { return RecordingReader(path).read(); }

void requireSameArtifact(const Recording &recording, const Artifact &artifact, const Path &path) {
  std::string found = sha256Hex(artifact.elf());
  if (found != recording.artifact) {
    throw UserError(path.string() + ": expected a recording of " + artifact.path() + " (SHA-256 " +
                    found.substr(0, 12) + "...), found one of " + recording.artifact.substr(0, 12) +
                    "...; record the bundle again");
  }
}

} // namespace sluice::runtime

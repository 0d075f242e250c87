// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's readers. Readers of files get a file in memory.
#include "Data/DataFormat.h"
#include "Data/Decompress.h"
#include "Data/Png.h"
#include "Generate/SessionText.h"
#include "Readers.h"
#include "Report/RunFiles.h"
#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Data/Edges.h"
#include "sluice/Runtime/Data/Images.h"
#include "sluice/Runtime/Data/LinePairs.h"
#include "sluice/Runtime/Data/NpyHeader.h"
#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Device/Recording.h"
#include "sluice/Runtime/Device/Tuning.h"
#include "sluice/Runtime/Import/ImportWeights.h"
#include "sluice/Runtime/Tokenizer/TokenCache.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/StrictJson.h"
#include "sluice/Support/Text.h"
#include "sluice/Support/Trailer.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <unistd.h>

using namespace sluice;
using namespace sluice::runtime;

namespace {

std::span<const uint8_t> toBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

/// Calls a reader; a message to the user is no finding.
template <typename Action> void run(const Action &action) {
  try {
    action();
  } catch (const UserError &) {
  } catch (const JobError &) {
  }
}

/// A folder for the process, on a file system in memory if there is one.
const Path &getFolder() {
  static const Path folder = [] {
    bool hasMemory = ::access("/dev/shm", W_OK) == 0;
    std::string name = std::string(hasMemory ? "/dev/shm" : "/tmp") + "/sluice-fuzz-readers-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::exit(2);
    }
    static std::string made = name;
    std::atexit([] { std::filesystem::remove_all(made); });
    return Path(name);
  }();
  return folder;
}

Path writeInput(const char *name, std::string_view input) {
  Path path = getFolder() / name;
  static std::set<std::string_view> known; // names are literals
  if (known.insert(name).second) {
    std::filesystem::create_directories(path.parent_path());
  }
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
    std::perror(path.c_str());
    std::exit(2);
  }
  ::close(fd);
  return path;
}

/// The plan of test/unit/Runtime/Inputs.
const Plan &getPlan() {
  static const Plan plan = parsePlan(readText(BIGRAM_PLAN, "plan"), "plan");
  return plan;
}

void readTrailer(std::string_view input) {
  run([&] { checkTrailer(toBytes(input), "file"); });
}

void readPlan(std::string_view input) {
  run([&] { parsePlan(input, "file"); });
}

/// Reads the tensors of a file, up to a million numbers.
void readSafetensors(std::string_view input) {
  run([&] {
    SafetensorsFile file(toBytes(input), "file");
    for (const auto &[name, stored] : file.tensors()) {
      std::vector<float> numbers(std::min<uint64_t>(stored.end - stored.begin, 1 << 20));
      int64_t count = 1;
      for (int64_t size : stored.shape) {
        count = count > 0 && size > (1 << 20) / count ? -1 : count * size;
      }
      if (count >= 0 && count <= std::ssize(numbers)) {
        numbers.resize(static_cast<size_t>(count));
        NamedTensor tensor = {name, stored.shape, numbers};
        run([&] {
          file.check(tensor);
          file.copy(tensor);
        });
      }
    }
  });
}

/// Corrects the checksum, which no mutation finds.
/// Applies a map to a state dict of five tensors, for a model of five weights and for none.
void readWeightMap(std::string_view input) {
  static const std::vector<uint8_t> bytes = [] {
    std::vector<float> numbers = {0, 1, 2, 3, 4, 5, 6, 7};
    std::vector<NamedTensor> tensors = {{"h.0.w", {2, 4}, numbers},
                                        {"h.1.w", {2, 4}, numbers},
                                        {"h.0.b", {8}, numbers},
                                        {"table", {8, 1}, numbers},
                                        {"head", {8, 1}, numbers}};
    return encodeSafetensors(tensors);
  }();
  static const ImportModel model = {
      "model", {{"a.0", {4, 2}}, {"a.1", {4, 2}}, {"q", {4}}, {"v", {4}}, {"table", {8, 1}}}};
  run([&] {
    WeightMap map = parseWeightMap(input, "map");
    StateFile file{"state", SafetensorsFile(bytes, "state")};
    run([&] { importWeights(map, std::span(&file, 1), model); });
    run([&] { importWeights(map, std::span(&file, 1), std::nullopt); });
  });
}

void readCheckpoint(std::string_view input) {
  nlohmann::json state = parseJson(input).value;
  std::string text(input);
  if (state.is_object()) {
    state.erase("checksum");
    state["checksum"] =
        sha256Hex(state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    text = state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  writeInput("run/latest", "1\n");
  writeInput("run/checkpoints/1/state.json", text);
  run([] { readTrainingState(getFolder() / "run"); });
}

void readRecord(std::string_view input) {
  writeInput("record/run.json", input);
  run([] { readRunRecord(getFolder() / "record"); });
}

/// Returns the first `most` lines of a text.
std::string_view keepLines(std::string_view text, size_t most) {
  size_t end = 0;
  for (size_t i = 0; i < most && end < text.size(); ++i) {
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  }
  return text.substr(0, end);
}

/// Lines of metrics.jsonl, as a report reads them; after "%%" its costs.json. Mutations insert
/// hundreds of lines; more than 16 reach no other edges.
void readMetrics(std::string_view input) {
  auto [written, costs] = fuzz::cutInput(input);
  std::string_view lines = keepLines(written, 16);
  writeInput("metrics/metrics.jsonl", lines);
  writeInput("metrics/costs.json", costs);
  run([] {
    RunFiles files(getFolder() / "metrics");
    files.results();
    files.data();
    files.isLeakAllowed();
    for (const std::string &name : files.findMembers("losses")) {
      files.series("losses", name);
    }
  });
}

/// A text of three bytes, and its weights or its distributions of two.
void readNpy(std::string_view input) {
  NpyHeader header = parseNpyHeader(toBytes(input));
  if (header.problem.empty()) {
    header.isF32();
    header.showShape();
  }
  Path path = writeInput("numbers.npy", input);
  ByteFile text{"text", std::vector<uint8_t>{'a', 'b', 'c'}};
  run([&] { readNumbers(path, {{}, 1, false}, text); });
  run([&] { readNumbers(path, {{}, 2, true}, text); });
}

void readPng(std::string_view input) {
  std::span<const uint8_t> bytes = toBytes(input);
  if (!isPng(bytes)) {
    return;
  }
  DecodedPng image = decodePng(bytes, 0, 0, 0);
  if (image.width * image.height <= 1 << 16) {
    decodePng(bytes, image.width, image.height, image.channels);
  }
}

/// A file of text that may be compressed, or of another format.
void readData(std::string_view input) {
  std::span<const uint8_t> bytes = toBytes(input);
  FileContents contents(std::vector<uint8_t>(bytes.begin(), bytes.end()));
  findFormat(contents);
  describeOddities(contents, 256, "data");
  Compression compression = findCompression(contents);
  if (compression != Compression::None) {
    TemporaryFile into(getFolder());
    run([&] {
      decompress(contents, compression, "data", into, {.bytes = 1 << 16, .ratio = 100});
      describeOddities(into.finish("data"), 256, "data");
    });
  }
}

void readLabelFile(std::string_view input) {
  auto [labels, text] = fuzz::cutInput(input);
  Path path = writeInput("labels", labels);
  ByteFile file{"text", std::vector<uint8_t>(text.begin(), text.end())};
  run([&] { LabelFiles({{"words", {path}}}, {"text"}, {file}); });
}

void readLinePairs(std::string_view input) {
  auto [first, second] = fuzz::cutInput(input);
  Path path = writeInput("first", first), other = writeInput("second", second);
  run([&] {
    Lines lines({path, other}, 128, 8);
    for (int64_t i = 0; i < lines.count(); ++i) {
      lines.at(i);
    }
    lines.describeCut("lines");
  });
}

/// Lines of an input; after "%%" the ends of their words, after another "%%" the edges between the
/// words, as pairs or as CoNLL-U.
void readGivenInputs(std::string_view input) {
  static const Plan plan = [] {
    constexpr int64_t rows = 16, edges = 8;
    Plan plan;
    plan.given["source"] = {.capacity = rows, .vocabulary = 256};
    plan.given["words"] = {.capacity = rows,
                           .vocabulary = 2,
                           .on = "source",
                           .derived = "shuffled_end",
                           .rule = "file"};
    plan.inputs["edges.words.heads"].shape = {1, rows + 2 * edges};
    return plan;
  }();
  auto [lines, sides] = fuzz::cutInput(input);
  auto [ends, edges] = fuzz::cutInput(sides);
  InputFiles files = {{"source", {writeInput("source", lines)}},
                      {"words", {writeInput("words", ends)}},
                      {"heads", {writeInput("heads", edges)}}};
  run([&] {
    InputLines all(files, plan);
    for (int64_t i = 0; i < all.count(); ++i) {
      std::vector<int32_t> pairs = all.at(i).at("heads");
      std::vector<int32_t> lists(16 + 2 * 8);
      Edges found;
      for (size_t k = 0; k + 1 < pairs.size(); k += 2) {
        found.emplace_back(pairs[k], pairs[k + 1]);
      }
      writeEdgeLists(found, 16, lists);
    }
  });
}

void readSession(std::string_view input) {
  run([&] {
    nlohmann::json parsed = readJson(input, "file", "JSON", sessionRemedy);
    StrictJson json(parsed, "file", sessionRemedy);
    requireSession(json);
    Predictor::GenerationWindow window;
    parseSession(json, getPlan(), window);
  });
}

void readTuningFile(std::string_view input) {
  Path path = writeInput("tuning.json", input);
  run([&] { readTuning(path); });
}

void readRecordingFile(std::string_view input) {
  Path path = writeInput("recording", input);
  run([&] { readRecording(path); });
}

/// Reads a tokenizer's file, and a model without the checksum that mutations do not have.
void readTokenizer(std::string_view input) {
  const std::string text = "low  lower\r\n \xe2\x96\x81<0x0A>\xff a@@ b";
  run([&] { Tokenizer::read(toBytes(input), "tokenizer"); });
  for (SubwordFormat format : {SubwordFormat::SentencePiece, SubwordFormat::SubwordNmt}) {
    run([&] {
      Tokenizer tokenizer = Tokenizer::fromModel(format, std::string(input), "model");
      if (tokenizer.decode(tokenizer.encode(toBytes(text))) != text) {
        std::abort();
      }
    });
  }
}

/// Reads a cache of token ids of one text.
void readTokenCache(std::string_view input) {
  static const Tokenizer tokenizer =
      Tokenizer::fromModel(SubwordFormat::SubwordNmt, "#version: 0.2\nl o\n", "codes");
  static const std::vector<ByteFile> texts = {
      {"text", FileContents(std::vector<uint8_t>{'l', 'o', '\n'})}};
  Path path = writeInput("token-cache", input);
  run([&] { TokenCache::open(path, texts, tokenizer); });
}

void readFileKind(std::string_view input) {
  recognize(toBytes(input));
  size_t half = input.size() / 2;
  recognize(input.substr(0, half), input.substr(half), input.size() * 3);
}

void readFlags(std::string_view input) {
  std::string text(input);
  run([&] { parseImageSize("--images", text); });
  run([&] { parseInputFiles("--input", {text}); });
  run([&] { parseLabelFiles("--labels", {text}); });
  findByteSize(text);
  quote(text);
  showPath(text);
  showText(text);
  countCharacters(text, text.size() / 3, text.size() / 2);
}

constexpr fuzz::FuzzedReader readers[] = {
    {"trailer", readTrailer},
    {"plan", readPlan},
    {"safetensors", readSafetensors},
    {"weight-map", readWeightMap},
    {"checkpoint", readCheckpoint},
    {"run-record", readRecord},
    {"metrics", readMetrics},
    {"npy", readNpy},
    {"png", readPng},
    {"data", readData},
    {"labels", readLabelFile},
    {"line-pairs", readLinePairs},
    {"given-inputs", readGivenInputs},
    {"session", readSession},
    {"tuning", readTuningFile},
    {"recording", readRecordingFile},
    {"tokenizer", readTokenizer},
    {"token-cache", readTokenCache},
    {"flags", readFlags},
    {"file-kind", readFileKind},
};

} // namespace

std::span<const fuzz::FuzzedReader> fuzz::getRuntimeReaders() { return readers; }

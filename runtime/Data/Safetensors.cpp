// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Safetensors.h"

#include "HashStream.h"
#include "sluice/Runtime/Data/FileContents.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fnmatch.h>
#include <set>

namespace sluice::runtime {
namespace {

using StoredTensor = SafetensorsFile::StoredTensor;

constexpr const char *metadataKey = "__metadata__";
constexpr const char *dataKey = "sluice.data_sha256";
constexpr const char *tensorsKey = "sluice.tensors_sha256";

[[noreturn]] void refuse(const std::string &origin, const std::string &what,
                         const SafetensorsRemedies &remedies) {
  throw UserError(origin + ": " + what + remedies.foreign);
}

std::span<const uint8_t> viewBytes(const NamedTensor &tensor) {
  return {reinterpret_cast<const uint8_t *>(tensor.data.data()), tensor.data.size_bytes()};
}

std::string naming(const std::string &name) { return "tensor " + showJson(name); }

/// Returns the size of an element in bytes; 0 for an unknown type.
uint64_t countBytes(const std::string &type) {
  static const std::map<std::string, uint64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

StoredTensor readStored(const StrictJson &entry, uint64_t dataBytes) {
  entry.keys({"dtype", "shape", "data_offsets"});
  StoredTensor stored;
  stored.type = entry.at("dtype").string();
  stored.shape = entry.at("shape").integers();
  std::vector<int64_t> offsets = entry.at("data_offsets").integers();
  auto most = static_cast<int64_t>(dataBytes);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > most) {
    entry.at("data_offsets")
        .failType("a range inside the file's " + std::to_string(dataBytes) +
                  " bytes of data (the file may be cut short)");
  }
  stored.begin = static_cast<uint64_t>(offsets[0]);
  stored.end = static_cast<uint64_t>(offsets[1]);
  uint64_t size = countBytes(stored.type);
  if (size == 0) {
    return stored; // its range is only compared with adjacent tensors
  }
  // The extents that are not 0 are limited even in an empty tensor: sizes of parts of it fit, too.
  bool isEmpty = std::ranges::find(stored.shape, 0) != stored.shape.end();
  uint64_t limit = isEmpty ? uint64_t{1} << 30 : dataBytes, product = size;
  for (int64_t extent : stored.shape) {
    auto factor = static_cast<uint64_t>(extent);
    if (factor > 0 && product > limit / factor) {
      entry.at("shape").failType("a shape that fits the file");
    }
    product *= std::max<uint64_t>(factor, 1);
  }
  uint64_t bytes = isEmpty ? 0 : product;
  if (stored.end - stored.begin != bytes) {
    entry.at("data_offsets").failType("a range of " + std::to_string(bytes) + " bytes");
  }
  if (stored.begin % size != 0) {
    entry.at("data_offsets")
        .failType("a range that starts at a multiple of " + std::to_string(size));
  }
  return stored;
}

/// Checks that every byte of the data belongs to exactly one tensor: otherwise tensors overlap, or
/// the file has unused data.
void requireWholeCover(const std::map<std::string, StoredTensor> &table, uint64_t dataBytes,
                       const std::string &origin, const SafetensorsRemedies &remedies) {
  std::vector<std::pair<uint64_t, std::string>> starts;
  for (const auto &[name, stored] : table) {
    starts.emplace_back(stored.begin, name);
  }
  // All tensors with the same start except the last must be empty.
  std::sort(starts.begin(), starts.end(), [&](const auto &a, const auto &b) {
    return std::tuple(a.first, table.at(a.second).end) <
           std::tuple(b.first, table.at(b.second).end);
  });
  uint64_t end = 0;
  for (const auto &[begin, name] : starts) {
    if (begin != end) {
      refuse(origin,
             naming(name) + ": expected its data at byte " + std::to_string(end) +
                 ", right after the tensor before it, found it at byte " + std::to_string(begin) +
                 (begin < end ? " (two tensors overlap)" : " (bytes of no tensor)"),
             remedies);
    }
    end = table.at(name).end;
  }
  if (end != dataBytes) {
    refuse(origin,
           "expected " + std::to_string(end) + " bytes after the header, found " +
               std::to_string(dataBytes),
           remedies);
  }
}

Json readHeader(std::span<const uint8_t> file, const std::string &origin,
                const SafetensorsRemedies &remedies, uint64_t &dataStart) {
  uint64_t headerBytes = 0;
  if (file.size() >= 8) {
    std::memcpy(&headerBytes, file.data(), 8);
  }
  if (file.size() < 8 || headerBytes < 2 || headerBytes > file.size() - 8) {
    refuse(origin,
           "expected a safetensors file, found one without a whole header (another kind of "
           "file, or cut short)",
           remedies);
  }
  dataStart = 8 + headerBytes;
  const auto *text = reinterpret_cast<const char *>(file.data()) + 8;
  Json header =
      readJson({text, headerBytes}, origin + ": header", "a JSON object", remedies.foreign);
  StrictJson(header, origin + ": header", remedies.foreign).object();
  return header;
}

/// Returns the SHA-256 of the header without its metadata.
std::string hashOfTable(Json header) {
  header.erase(metadataKey);
  return sha256Hex(header.dump());
}

/// Returns whether the file has checksums. Throws if they do not match its contents.
bool verify(const Json &header, std::span<const uint8_t> data, const std::string &origin,
            const SafetensorsRemedies &remedies) {
  if (!header.contains(metadataKey)) {
    return false;
  }
  StrictJson metadata(header[metadataKey], origin + ": header." + metadataKey, remedies.foreign);
  metadata.object();
  if (!metadata.has(dataKey) && !metadata.has(tensorsKey)) {
    return false;
  }
  auto holds = [&](const char *key, const std::string &hash) {
    return metadata.has(key) && metadata.at(key).string() == hash;
  };
  if (!holds(tensorsKey, hashOfTable(header)) || !holds(dataKey, sha256Hex(data))) {
    throw UserError(origin +
                    ": expected tensors that match the checksums in the file's metadata, "
                    "found others: the file is damaged" +
                    remedies.damaged);
  }
  return true;
}

/// Converts IEEE 754 binary16 to binary32 exactly.
uint32_t widenHalf(uint32_t half) {
  uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
  if (exponent == 31) { // infinity or NaN
    return sign | 0x7f800000 | mantissa << 13;
  }
  if (exponent > 0) {
    return sign | (exponent + 127 - 15) << 23 | mantissa << 13;
  }
  if (mantissa == 0) {
    return sign;
  }
  // A subnormal is mantissa * 2^-24; its leading bit, of weight 2^top, becomes the implicit one.
  auto top = static_cast<uint32_t>(std::bit_width(mantissa)) - 1;
  return sign | (top + 127 - 24) << 23 | ((mantissa << (23 - top)) & 0x7fffff);
}

} // namespace

SafetensorsFile::SafetensorsFile(std::span<const uint8_t> file, std::string origin,
                                 SafetensorsRemedies given)
    : origin(std::move(origin)), remedies(std::move(given)) {
  uint64_t dataStart = 0;
  Json header = readHeader(file, this->origin, remedies, dataStart);
  data = file.subspan(dataStart);
  for (const auto &[name, entry] : header.items()) {
    if (name != metadataKey) {
      table[name] = readStored(
          StrictJson(entry, this->origin + ": " + naming(name), remedies.foreign), data.size());
    }
  }
  requireWholeCover(table, data.size(), this->origin, remedies);
  checksummed = verify(header, data, this->origin, remedies);
  if (auto metadata = header.find(metadataKey); metadata != header.end()) {
    for (const auto &[key, text] : metadata->items()) {
      texts[key] = text.is_string() ? text.get<std::string>() : "";
    }
  }
}

std::string SafetensorsFile::metadata(const std::string &key) const {
  auto found = texts.find(key);
  return found == texts.end() ? "" : found->second;
}

float SafetensorsFile::element(const StoredTensor &stored, size_t index) const {
  const uint8_t *bytes = data.data() + stored.begin; // may be unaligned
  uint32_t bits = 0;
  if (stored.type == "F32") {
    std::memcpy(&bits, bytes + index * 4, 4);
  } else {
    uint16_t half = 0;
    std::memcpy(&half, bytes + index * 2, 2);
    bits = stored.type == "F16" ? widenHalf(half) : static_cast<uint32_t>(half) << 16;
  }
  return std::bit_cast<float>(bits);
}

void SafetensorsFile::rename(const WeightNames &names) {
  auto isIgnored = [&](const std::string &name) {
    return std::ranges::any_of(names.ignore, [&](const std::string &glob) {
      return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    });
  };
  auto first = [&] { return table.empty() ? "no tensor" : showJson(table.begin()->first); };
  bool isFound = names.prefix.empty();
  std::map<std::string, StoredTensor> renamed;
  for (const auto &[name, stored] : table) {
    bool hasPrefix = !names.prefix.empty() && name.starts_with(names.prefix);
    isFound |= hasPrefix;
    std::string own = hasPrefix ? name.substr(names.prefix.size()) : name;
    if (!renamed.emplace(own, stored).second) {
      throw UserError(origin + ": --weights-prefix: expected one tensor for each name without \"" +
                      names.prefix + "\", found two for " + showJson(own) +
                      "; leave one out with --ignore, or leave the prefix out");
    }
  }
  if (!isFound) {
    throw UserError(
        origin +
        ": --weights-prefix: expected a prefix of the names of the file's tensors, found \"" +
        names.prefix + "\" where the first is " + first() +
        "; give another prefix, or leave it out");
  }
  for (const std::string &glob : names.ignore) {
    bool fits = std::ranges::any_of(renamed, [&](const auto &each) {
      return ::fnmatch(glob.c_str(), each.first.c_str(), 0) == 0;
    });
    if (!fits) {
      throw UserError(origin +
                      ": --ignore: expected a pattern that names a tensor of the file, "
                      "such as " +
                      first() + ", found \"" + glob + "\"; leave it out");
    }
  }
  std::erase_if(renamed, [&](const auto &each) { return isIgnored(each.first); });
  table = std::move(renamed);
}

std::vector<std::string> SafetensorsFile::findOthers(std::span<const NamedTensor> into,
                                                     std::vector<std::string> &copies) const {
  std::set<std::string> expected;
  for (const NamedTensor &tensor : into) {
    expected.insert(tensor.name);
  }
  auto bytesAt = [&](const StoredTensor &stored) {
    return data.subspan(stored.begin, stored.end - stored.begin);
  };
  std::vector<std::string> others;
  for (const auto &[name, stored] : table) {
    if (expected.contains(name)) {
      continue;
    }
    auto original = std::ranges::find_if(into, [&](const NamedTensor &tensor) {
      auto found = table.find(tensor.name);
      return found != table.end() && found->second.type == stored.type &&
             found->second.shape == stored.shape && stored.end > stored.begin &&
             std::ranges::equal(bytesAt(found->second), bytesAt(stored));
    });
    if (original == into.end()) {
      others.push_back(name);
    } else {
      copies.push_back(origin + ": left out " + showJson(name) + ", which holds the numbers of " +
                       showJson(original->name) + " once more");
    }
  }
  return others;
}

void SafetensorsFile::requireNoPrefix(std::span<const NamedTensor> into) const {
  if (into.empty() || table.contains(into.front().name)) {
    return;
  }
  const std::string &wanted = into.front().name;
  for (const auto &[name, ignored] : table) {
    if (!name.ends_with(wanted)) {
      continue;
    }
    std::string prefix = name.substr(0, name.size() - wanted.size());
    bool isCommon = std::ranges::all_of(into, [&](const NamedTensor &tensor) {
      return table.contains(tensor.name) || table.contains(prefix + tensor.name);
    });
    if (isCommon) {
      throw UserError(
          origin + ": expected " + naming(wanted) + ", found " + showJson(name) +
          ", and likewise for the others" +
          (prefix == "_orig_mod." ? " (torch.compile puts this before every name)" : "") +
          "; take it off with --weights-prefix " + prefix);
    }
  }
}

/// Throws if a table of learned positions has the wrong number of rows, one per position of the
/// training context.
void SafetensorsFile::requireContext(const NamedTensor &tensor, const StoredTensor &stored) const {
  bool isTable = tensor.name.ends_with("position.weight") && tensor.shape.size() == 2 &&
                 stored.shape.size() == 2 && stored.shape[1] == tensor.shape[1];
  if (isTable && stored.shape[0] != tensor.shape[0]) {
    std::string found = std::to_string(stored.shape[0]);
    throw UserError(origin + ": " + naming(tensor.name) +
                    ": expected positions for the artifact's context of " +
                    std::to_string(tensor.shape[0]) + ", found those of a context of " + found +
                    "; compile the spec with --set context=" + found +
                    " for these weights, or name weights of this context");
  }
}

void SafetensorsFile::check(const NamedTensor &tensor) const {
  auto found = table.find(tensor.name);
  if (found == table.end()) {
    refuse(origin,
           "expected " + naming(tensor.name) + " " + showJson(tensor.shape) +
               ", found none of this name",
           remedies);
  }
  const StoredTensor &stored = found->second;
  if (stored.type != "F32" && stored.type != "F16" && stored.type != "BF16") {
    throw UserError(origin + ": " + naming(tensor.name) +
                    ": expected dtype F32, F16 or BF16, found " + showJson(stored.type) +
                    "; convert it and store the file again, as with x.float() in PyTorch or "
                    "x.astype(\"float32\") in NumPy");
  }
  requireContext(tensor, stored);
  if (stored.shape != tensor.shape) {
    refuse(origin,
           naming(tensor.name) + ": expected shape " + showJson(tensor.shape) + ", found " +
               showJson(stored.shape),
           remedies);
  }
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    if (float value = element(stored, i); !std::isfinite(value)) {
      refuse(origin,
             naming(tensor.name) + ": expected finite numbers, found " + std::to_string(value) +
                 " at element " + std::to_string(i),
             remedies);
    }
  }
}

std::vector<float> SafetensorsFile::convert(const std::string &name) const {
  const StoredTensor &stored = table.at(name);
  static const std::set<std::string> types = {"F32", "F16", "BF16", "F64"};
  if (!types.contains(stored.type)) {
    throw UserError(origin + ": " + naming(name) +
                    ": expected dtype F32, F16, BF16 or F64, found " + showJson(stored.type) +
                    "; convert it and store the file again, as with x.float() in PyTorch");
  }
  std::vector<float> numbers((stored.end - stored.begin) / countBytes(stored.type));
  if (stored.type == "F64") {
    for (size_t i = 0; i < numbers.size(); ++i) {
      double number = 0;
      std::memcpy(&number, data.data() + stored.begin + i * 8, 8);
      numbers[i] = static_cast<float>(number); // infinite where f32 ends
    }
  } else {
    copy({name, stored.shape, numbers});
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!std::isfinite(numbers[i])) {
      refuse(origin,
             naming(name) + ": expected numbers that are finite in f32, found " +
                 std::to_string(numbers[i]) + " at element " + std::to_string(i),
             remedies);
    }
  }
  return numbers;
}

std::span<const uint8_t> SafetensorsFile::getBytes(const std::string &name) const {
  const StoredTensor &stored = table.at(name);
  return data.subspan(stored.begin, stored.end - stored.begin);
}

void SafetensorsFile::copy(const NamedTensor &into) const {
  const StoredTensor &stored = table.at(into.name);
  if (stored.type == "F32") {
    std::span<uint8_t> place(reinterpret_cast<uint8_t *>(into.data.data()), into.data.size_bytes());
    std::ranges::copy(data.subspan(stored.begin, place.size()), place.begin());
    return;
  }
  for (size_t i = 0; i < into.data.size(); ++i) {
    into.data[i] = element(stored, i);
  }
}

/// Returns the bytes of a file before the tensors.
static std::vector<uint8_t> encodeHeader(std::span<const NamedTensor> tensors,
                                         const std::map<std::string, std::string> &metadata) {
  Json header = Json::object();
  uint64_t bytes = 0;
  HashStream hash;
  for (const NamedTensor &tensor : tensors) {
    uint64_t end = bytes + tensor.data.size_bytes();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {bytes, end}}};
    hash.add(viewBytes(tensor));
    bytes = end;
  }
  std::string tableHash = hashOfTable(header);
  header[metadataKey] = metadata;
  header[metadataKey].update({{dataKey, hash.finish()}, {tensorsKey, tableHash}});
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' '); // aligns the data for readers that map the file
  auto length = static_cast<uint64_t>(text.size());
  std::vector<uint8_t> file(sizeof length + text.size());
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, text.data(), text.size());
  return file;
}

std::vector<uint8_t> encodeSafetensors(std::span<const NamedTensor> tensors,
                                       const std::map<std::string, std::string> &metadata) {
  std::vector<uint8_t> file = encodeHeader(tensors, metadata);
  for (const NamedTensor &tensor : tensors) {
    std::span<const uint8_t> bytes = viewBytes(tensor);
    file.insert(file.end(), bytes.begin(), bytes.end());
  }
  return file;
}

HashedFile writeSafetensors(const Path &path, std::span<const NamedTensor> tensors,
                            const std::map<std::string, std::string> &metadata) {
  OutputFile file(path);
  HashedFile written = writeSafetensors(file, tensors, metadata);
  file.finish();
  return written;
}

HashedFile writeSafetensors(OutputFile &file, std::span<const NamedTensor> tensors,
                            const std::map<std::string, std::string> &metadata) {
  HashedFile written;
  HashStream hash;
  auto write = [&](std::span<const uint8_t> bytes) {
    file.write(bytes);
    hash.add(bytes);
    written.bytes += std::ssize(bytes);
  };
  write(encodeHeader(tensors, metadata));
  for (const NamedTensor &tensor : tensors) {
    write(viewBytes(tensor));
  }
  written.sha256 = hash.finish();
  return written;
}

std::string readMetadata(const Path &path, const std::string &key) {
  if (!isRegularFile(path)) {
    return "";
  }
  FileContents file = FileContents::open(path, "weights");
  std::vector<uint8_t> start = file.read(0, sizeof(uint64_t));
  uint64_t length = 0;
  if (start.size() < sizeof length) {
    return "";
  }
  std::memcpy(&length, start.data(), sizeof length);
  constexpr uint64_t longest = uint64_t(100) << 20; // of other readers of safetensors
  if (length > std::min<uint64_t>(longest, file.size() - sizeof length)) {
    return "";
  }
  std::vector<uint8_t> text = file.read(sizeof length, static_cast<size_t>(length));
  Json header = parseJson({reinterpret_cast<const char *>(text.data()), text.size()}).value;
  bool isFound = header.is_object() && header.contains(metadataKey) &&
                 header[metadataKey].is_object() && header[metadataKey].contains(key) &&
                 header[metadataKey][key].is_string();
  return isFound ? header[metadataKey][key].get<std::string>() : "";
}

bool decodeSafetensors(std::span<const uint8_t> file, const std::string &origin,
                       std::span<const NamedTensor> into, const WeightNames &names,
                       const std::function<void(const std::string &)> &notice,
                       const std::function<void(std::span<const uint8_t>)> &release) {
  SafetensorsFile stored(file, origin);
  stored.rename(names);
  stored.requireNoPrefix(into);
  for (const NamedTensor &tensor : into) {
    stored.check(tensor);
  }
  std::vector<std::string> copies, others = stored.findOthers(into, copies);
  if (!others.empty()) {
    throw UserError(
        origin + ": expected only the model's tensors, found " + showJson(others.front()) +
        (others.size() > 1 ? " and " + std::to_string(others.size() - 1) + " more" : "") +
        "; give weights of this model, or leave out what it has no use for with "
        "--ignore " +
        showJson(others.front()));
  }
  for (const std::string &copy : copies) {
    if (notice) {
      notice(copy);
    }
  }
  for (const NamedTensor &tensor : into) {
    stored.copy(tensor);
    if (release) {
      release(stored.getBytes(tensor.name));
    }
  }
  return stored.hasChecksum();
}

} // namespace sluice::runtime

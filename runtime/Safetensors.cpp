// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Safetensors.h"

#include "sluice/Runtime/Error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace sluice::runtime {
namespace {

using Json = nlohmann::json;

std::string show(const std::vector<int64_t> &shape) { return Json(shape).dump(); }

[[noreturn]] void refuse(const std::string &origin, const std::string &what) {
  throw UserError(origin + ": " + what +
                  "; give the safetensors file that belongs to this artifact");
}

/// Where one tensor's data lies, after the header.
struct Extent {
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

Extent readExtent(const Json &entry, const std::string &origin, const std::string &name,
                  uint64_t dataBytes) {
  const std::string tensor = "tensor \"" + name + "\"";
  bool wellFormed = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                    entry.contains("shape") && entry["shape"].is_array() &&
                    entry.contains("data_offsets") && entry["data_offsets"].is_array() &&
                    entry["data_offsets"].size() == 2 &&
                    entry["data_offsets"][0].is_number_unsigned() &&
                    entry["data_offsets"][1].is_number_unsigned();
  if (!wellFormed) {
    refuse(origin, tensor + ": expected dtype, shape and data_offsets, found a malformed header");
  }
  if (entry["dtype"] != "F32") {
    refuse(origin, tensor + ": expected dtype F32, found " + entry["dtype"].get<std::string>());
  }
  Extent extent;
  extent.begin = entry["data_offsets"][0].get<uint64_t>();
  extent.end = entry["data_offsets"][1].get<uint64_t>();
  uint64_t elements = 1;
  for (const Json &size : entry["shape"]) {
    if (!size.is_number_unsigned() || (size > 0 && elements > dataBytes / size.get<uint64_t>())) {
      refuse(origin,
             tensor + ": expected a shape that fits the file, found " + entry["shape"].dump());
    }
    elements *= size.get<uint64_t>();
    extent.shape.push_back(size.get<int64_t>());
  }
  if (extent.begin > extent.end || extent.end > dataBytes ||
      extent.end - extent.begin != elements * 4) {
    refuse(origin, tensor + ": expected " + std::to_string(elements * 4) +
                       " bytes inside the file's " + std::to_string(dataBytes) +
                       " bytes of data, found the range " + entry["data_offsets"].dump() +
                       " (the file may be cut short)");
  }
  return extent;
}

std::map<std::string, Extent> readHeader(std::span<const uint8_t> file, const std::string &origin,
                                         uint64_t &dataStart) {
  uint64_t headerBytes = 0;
  if (file.size() >= 8) {
    std::memcpy(&headerBytes, file.data(), 8);
  }
  if (file.size() < 8 || headerBytes < 2 || headerBytes > file.size() - 8) {
    refuse(origin, "expected a safetensors file, found one without a whole header (another kind of "
                   "file, or cut short)");
  }
  Json header = Json::parse(file.begin() + 8, file.begin() + 8 + static_cast<int64_t>(headerBytes),
                            nullptr, false);
  if (!header.is_object()) {
    refuse(origin, "expected a safetensors file, found a header that is not JSON");
  }
  dataStart = 8 + headerBytes;
  std::map<std::string, Extent> extents;
  for (const auto &[name, entry] : header.items()) {
    if (name != "__metadata__") {
      extents[name] = readExtent(entry, origin, name, file.size() - dataStart);
    }
  }
  uint64_t end = 0;
  for (const auto &[name, extent] : extents) {
    end = std::max(end, extent.end);
  }
  if (dataStart + end != file.size()) {
    refuse(origin, "expected " + std::to_string(end) + " bytes after the header, found " +
                       std::to_string(file.size() - dataStart));
  }
  return extents;
}

} // namespace

std::vector<uint8_t> encodeSafetensors(std::span<const NamedTensor> tensors) {
  Json header = Json::object();
  uint64_t bytes = 0;
  for (const NamedTensor &tensor : tensors) {
    uint64_t end = bytes + tensor.data.size_bytes();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {bytes, end}}};
    bytes = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' '); // data starts aligned for readers that map the file
  std::vector<uint8_t> file(8 + text.size() + bytes);
  uint64_t length = text.size();
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, text.data(), text.size());
  uint8_t *at = file.data() + 8 + text.size();
  for (const NamedTensor &tensor : tensors) {
    std::memcpy(at, tensor.data.data(), tensor.data.size_bytes());
    at += tensor.data.size_bytes();
  }
  return file;
}

void decodeSafetensors(std::span<const uint8_t> file, const std::string &origin,
                       std::span<const NamedTensor> into) {
  uint64_t dataStart = 0;
  std::map<std::string, Extent> extents = readHeader(file, origin, dataStart);
  std::map<std::string, bool> expected;
  for (const NamedTensor &tensor : into) {
    expected[tensor.name] = true;
    auto found = extents.find(tensor.name);
    if (found == extents.end()) {
      refuse(origin, "expected tensor \"" + tensor.name + "\" " + show(tensor.shape) +
                         ", found none of this name");
    }
    if (found->second.shape != tensor.shape) {
      refuse(origin, "tensor \"" + tensor.name + "\": expected shape " + show(tensor.shape) +
                         ", found " + show(found->second.shape));
    }
  }
  for (const auto &[name, ignored] : extents) {
    if (!expected.contains(name)) {
      refuse(origin, "expected only the model's tensors, found \"" + name + "\"");
    }
  }
  for (const NamedTensor &tensor : into) {
    const uint8_t *data = file.data() + dataStart + extents[tensor.name].begin;
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      float value = 0;
      std::memcpy(&value, data + i * sizeof value, sizeof value); // the data need not be aligned
      if (!std::isfinite(value)) {
        refuse(origin, "tensor \"" + tensor.name + "\": expected finite numbers, found " +
                           std::to_string(value) + " at element " + std::to_string(i));
      }
    }
  }
  for (const NamedTensor &tensor : into) {
    std::memcpy(tensor.data.data(), file.data() + dataStart + extents[tensor.name].begin,
                tensor.data.size_bytes());
  }
}

} // namespace sluice::runtime

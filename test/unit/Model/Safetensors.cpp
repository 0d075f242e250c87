// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads golden files.
#include "Safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace sluice::testing {

template <typename T>
static std::vector<double> numbers(const std::string &file, size_t begin, size_t end) {
  std::vector<T> values((end - begin) / sizeof(T));
  std::memcpy(values.data(), file.data() + begin, values.size() * sizeof(T));
  return {values.begin(), values.end()};
}

Tensors readSafetensors(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::string file{std::istreambuf_iterator<char>(stream), {}};
  uint64_t length = 0;
  if (file.size() < sizeof length) {
    throw std::runtime_error("cannot read " + path);
  }
  std::memcpy(&length, file.data(), sizeof length);
  size_t start = sizeof length + length;
  nlohmann::json header = nlohmann::json::parse(file.substr(sizeof length, length));
  Tensors tensors;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    size_t begin = start + entry.at("data_offsets")[0].get<size_t>(),
           end = start + entry.at("data_offsets")[1].get<size_t>();
    if (end > file.size()) {
      throw std::runtime_error(path + " is cut short");
    }
    bool isInteger = entry.at("dtype") == "I32";
    tensors[name] =
        isInteger ? numbers<int32_t>(file, begin, end) : numbers<float>(file, begin, end);
  }
  return tensors;
}

} // namespace sluice::testing

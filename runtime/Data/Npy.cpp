// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Npy.h"

#include <bit>
#include <stdexcept>

namespace sluice::runtime {

static_assert(std::endian::native == std::endian::little, "numbers are written in memory order");

std::string encodeNpyHeader(const std::vector<int64_t> &shape, std::string_view type) {
  std::string sizes;
  for (int64_t size : shape) {
    sizes += std::to_string(size) + (shape.size() == 1 ? "," : ", ");
  }
  if (shape.size() > 1) {
    sizes.resize(sizes.size() - 2);
  }
  std::string text =
      "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  constexpr size_t before = 10, alignment = 64;
  text.append((alignment - (before + text.size() + 1) % alignment) % alignment, ' ');
  text += '\n';
  std::string start = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
  start += static_cast<char>(text.size() & 255);
  start += static_cast<char>(text.size() >> 8);
  return start + text;
}

NpyWriter::NpyWriter(const Path &path, const std::vector<int64_t> &shape, std::string_view type)
    : file(path), name(path.string()), missing(1) {
  for (int64_t size : shape) {
    missing *= size;
  }
  file.write(asBytes(encodeNpyHeader(shape, type)));
}

void NpyWriter::append(std::span<const float> numbers) {
  missing -= static_cast<int64_t>(numbers.size());
  file.write({reinterpret_cast<const uint8_t *>(numbers.data()), numbers.size_bytes()});
}

void NpyWriter::append(std::span<const int32_t> numbers) {
  missing -= static_cast<int64_t>(numbers.size());
  file.write({reinterpret_cast<const uint8_t *>(numbers.data()), numbers.size_bytes()});
}

void NpyWriter::finish() {
  if (missing != 0) {
    throw std::logic_error(name + ": " + std::to_string(missing) + " numbers are missing");
  }
  file.finish();
}

} // namespace sluice::runtime

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading and writing safetensors files: 8 bytes of header length, a JSON header, dense data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> data; // dense, row-major
};

/// The whole file's bytes; tensors lie in the order given.
std::vector<uint8_t> encodeSafetensors(std::span<const NamedTensor> tensors);

/// Copies the file's tensors into `into`, which it must hold exactly: no missing name, none
/// unexpected, equal shapes, dtype F32, ranges that fit. Throws UserError before anything is
/// copied; `origin` starts the message.
void decodeSafetensors(std::span<const uint8_t> file, const std::string &origin,
                       std::span<const NamedTensor> into);

} // namespace sluice::runtime

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A tensor of f32 in memory, with the name it has in a file.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> data; // dense, row-major
};

/// A file's tensors, for reading. The bytes must live as long.
/// How a file of another program names the model's tensors.
struct WeightNames {
  std::string prefix;              ///< taken off the names that begin with it
  std::vector<std::string> ignore; ///< globs of tensors that are left out
};

class SafetensorsFile {
public:
  struct Stored {
    std::string type; ///< F32, F16, BF16, or another that `check` refuses
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0; ///< bytes after the header
  };

  /// Throws UserError unless the header is well-formed, the tensors fill the data without holes or
  /// overlaps, aligned and in ranges as long as their shapes, and the checksum is right where the
  /// file has one. `origin` (a path) starts each message.
  SafetensorsFile(std::span<const uint8_t> file, std::string origin);

  const std::map<std::string, Stored> &tensors() const { return table; }
  /// Whether the file's metadata holds checksums (those that `encodeSafetensors` writes).
  bool hasChecksum() const { return checksummed; }
  /// A text of the file's metadata, which no checksum covers; empty where it has none.
  std::string metadata(const std::string &key) const;

  /// Takes the prefix off, then leaves tensors out. Throws UserError where the prefix or a glob
  /// fits no tensor, and where a tensor of the shorter name is there already.
  void rename(const WeightNames &names);

  /// The names of tensors that are none of `into`. Of those that hold the numbers of one of `into`,
  /// as a copy of a tied table does, `copies` gets a line for people each, and they are not among
  /// what is returned.
  std::vector<std::string> findOthers(std::span<const NamedTensor> into,
                                      std::vector<std::string> &copies) const;

  /// Throws UserError where names of `into` are missing and every one of them is there with the
  /// same prefix, such as torch.compile's "_orig_mod.".
  void requireNoPrefix(std::span<const NamedTensor> into) const;

  /// Throws UserError unless the file has this tensor, in this shape, of F32, F16 or BF16 and with
  /// finite numbers alone.
  void check(const NamedTensor &tensor) const;
  /// Copies a tensor that was checked. F16 and BF16 become f32 exactly.
  void copy(const NamedTensor &into) const;

private:
  float element(const Stored &stored, size_t index) const;
  void requireContext(const NamedTensor &tensor, const Stored &stored) const;

  std::string origin;
  std::span<const uint8_t> data;
  std::map<std::string, Stored> table;
  std::map<std::string, std::string> texts; ///< of the metadata
  bool checksummed = false;
};

/// The whole file's bytes; tensors lie in the order given. Its metadata holds two checksums,
/// SHA-256 in hexadecimal: sluice.data_sha256 of the bytes after the header, sluice.tensors_sha256
/// of the header's other members as compact JSON with sorted keys. `metadata` stands beside them.
std::vector<uint8_t> encodeSafetensors(std::span<const NamedTensor> tensors,
                                       const std::map<std::string, std::string> &metadata = {});

/// Copies the file's tensors into `into`, which it must hold exactly: no missing name, none
/// unexpected, once `names` were applied. Copies of its tensors may be there too, of which `notice`
/// is told. Throws UserError as SafetensorsFile does, before anything is copied. Returns whether
/// the file had checksums.
bool decodeSafetensors(std::span<const uint8_t> file, const std::string &origin,
                       std::span<const NamedTensor> into, const WeightNames &names = {},
                       const std::function<void(const std::string &)> &notice = {});

} // namespace sluice::runtime

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The models of tokenizers: vocabularies and encoders.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// The token of an id. Decoding joins `bytes`, with a space between a token that ends a word and a
/// following token that is not a byte.
struct SubwordToken {
  std::string bytes;
  bool isByte = false;   ///< a token of the byte fallback
  bool endsWord = false; ///< subword-nmt: a token without @@
};

class SubwordModel {
public:
  SubwordModel() = default;
  virtual ~SubwordModel() = default;
  SubwordModel(const SubwordModel &) = delete;
  SubwordModel &operator=(const SubwordModel &) = delete;

  virtual std::string_view kind() const = 0;
  virtual const std::vector<SubwordToken> &tokens() const = 0;
  /// Appends the ids of a text of arbitrary bytes.
  virtual void encode(std::string_view text, std::vector<int32_t> &ids) const = 0;
};

} // namespace sluice::runtime

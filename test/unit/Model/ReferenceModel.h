// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A complete model under the reference evaluator. No MLIR in this header, so a program can also use
// the runtime.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::testing {

/// Numbers by the names that weights have in files, dense and row-major.
using Tensors = std::map<std::string, std::vector<double>>;

/// A named input's tokens, [rows, capacity], and their number per row.
struct GivenTokens {
  int64_t capacity = 0;
  std::vector<int32_t> tokens;
  std::vector<int64_t> counts;
};

/// Inputs of an entry other than the weights.
struct Inputs {
  int64_t rows = 1, length = 1;
  uint64_t seed = 0, step = 1;
  std::vector<int32_t> tokens; ///< [rows, length + 1]
  std::map<std::string, GivenTokens> given = {};
  std::vector<int64_t> scored = {}; ///< rows of each text that count in losses; empty: all
};

/// Sets losses [rows, length] after the scored rows to zero: kernels stop there.
void clearUnscored(std::vector<double> &losses, const Inputs &inputs);

/// Results of the entry `gradient`.
struct ReferenceGradient {
  std::vector<double> losses; ///< [rows, length], nats
  double loss = 0;            ///< their mean
  Tensors gradients;
};

/// A trained tensor by its name in files.
struct ReferenceShape {
  std::string name;
  std::vector<int64_t> sizes;
  bool decay = false; ///< a matrix, not an embedding

  int64_t elements() const;
};

/// F32 and F64: arithmetic, nothing rounded to bf16. Bf16: float64 arithmetic, with every value
/// that the model stores as bf16 rounded to it.
enum class Precision { F32, F64, Bf16 };

/// Parsed model IR. The functions end the program if the IR is invalid: it is the compiler's own.
class ReferenceModel {
public:
  /// `text`: a module printed by `--emit model` or `--emit gradient`.
  explicit ReferenceModel(const std::string &text);
  ~ReferenceModel();
  ReferenceModel(const ReferenceModel &) = delete;
  ReferenceModel &operator=(const ReferenceModel &) = delete;

  /// Every trained tensor, in spec order.
  std::vector<ReferenceShape> shapes() const;
  /// Capacity and vocabulary of each named input.
  std::map<std::string, std::pair<int64_t, int64_t>> given() const;
  /// `vocabulary`, `context` or `batch`.
  int64_t size(const std::string &name) const;

  /// Evaluates @gradient, the result of sluice-differentiate.
  ReferenceGradient gradient(const Inputs &inputs, const Tensors &weights,
                             Precision precision) const;
  /// The mean loss of @evaluate, or of @train if there is dropout: the function that @gradient
  /// differentiates, in float64.
  double loss(const Inputs &inputs, const Tensors &weights) const;
  /// @predict: logits of the last valid position of each row, [rows, vocabulary].
  std::vector<double> predict(const Inputs &inputs, const Tensors &weights,
                              Precision precision) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace sluice::testing

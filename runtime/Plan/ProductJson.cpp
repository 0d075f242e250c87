// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ProductJson.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

constexpr size_t digitsOfNumber = 16;
constexpr int64_t mostSize = int64_t(1) << 30; // cuBLASLt takes 32-bit sizes

} // namespace

Algorithm readAlgorithm(const StrictJson &json) {
  Algorithm algorithm;
  std::string text = json.string();
  if (text.size() != digitsOfNumber * algorithm.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    json.failType("128 hexadecimal digits");
  }
  for (size_t i = 0; i < algorithm.size(); ++i) {
    algorithm[i] = std::stoull(text.substr(i * digitsOfNumber, digitsOfNumber), nullptr, 16);
  }
  return algorithm;
}

Product readShape(const StrictJson &json) {
  Product product;
  product.rows = json.at("rows").integer(1, mostSize);
  product.columns = json.at("columns").integer(1, mostSize);
  product.depth = json.at("depth").integer(1, mostSize);
  product.byInput = json.at("by_input").boolean();
  product.type = json.at("type").matchChoice({"f32", "bf16"}) == "f32" ? Type::f32 : Type::bf16;
  return product;
}

Product readProduct(const StrictJson &json, const std::vector<Operand> &operands) {
  json.keys({"rows", "columns", "depth", "by_input", "type", "input_stride", "weight_stride",
             "result_stride"});
  Product product = readShape(json);
  bool fits =
      operands.size() == 3 && !operands[0].written && !operands[1].written && operands[2].written;
  if (!fits) {
    json.fail("a kernel of two operands and one result",
              std::to_string(operands.size()) + " operands and results of other kinds");
  }
  auto stride = [&](const char *key, int64_t rows, int64_t width, Type type,
                    const Operand &operand) {
    int64_t found = json.at(key).integer(width, mostSize);
    int64_t elements = operand.bytes / getByteSize(type);
    if (width > elements || rows - 1 > (elements - width) / found) {
      json.at(key).failType("a stride with which " + std::to_string(rows) + " rows of " +
                            std::to_string(width) + " elements fit in " +
                            std::to_string(operand.bytes) + " bytes");
    }
    return found;
  };
  product.inputStride =
      stride("input_stride", product.rows, product.depth, Type::bf16, operands[0]);
  product.weightStride =
      stride("weight_stride", product.byInput ? product.depth : product.columns,
             product.byInput ? product.columns : product.depth, Type::bf16, operands[1]);
  product.resultStride =
      stride("result_stride", product.rows, product.columns, product.type, operands[2]);
  return product;
}

LibraryChoice readLibrary(const StrictJson &json) {
  json.keys({"name", "version", "algorithm"});
  json.at("name").matchChoice({"cublaslt"});
  return {json.at("version").integer(1), readAlgorithm(json.at("algorithm"))};
}

} // namespace sluice::runtime

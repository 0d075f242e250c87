// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention between a scale and its segments (Pagnoni et al. 2024, sections 3.2.2 and 3.3.1).
#include "ImportStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

static std::string partOf(const char *name, int64_t part) {
  return std::string(name) + "." + std::to_string(part);
}

/// Each segment asks its own rows, by a query a part. Where bits begin segments, these are the rows
/// from e(m - 1) on, before e(m), as of a mean.
SmallVector<Value> StageWriter::askSegments(const Attend &settings, Value x, Value over) {
  const Segmentation &of = segmentations[settings.segments];
  auto delayed = [&](const char *part) {
    Value rows = linear(part, over, computeType);
    if (!of.begins) {
      return rows;
    }
    name(std::string(part) + ".before");
    rows = sluice::ShiftOp::create(b, rows.getType(), rows, 1);
    return stored(std::string(part) + ".rows", rows);
  };
  Value key = delayed("key"), value = delayed("value");
  SequenceType type = sequence(1, settings.heads * settings.headSize, computeType);
  SmallVector<Value> results;
  for (int64_t i = 0; i < settings.parts; ++i) {
    Value query = linear(partOf("query", i), x, computeType);
    name(partOf("mix", i));
    Value mixed = AttendSegmentsOp::create(b, type, sequence(1, settings.heads, b.getF32Type()),
                                           query, key, value, of.counts, of.ends, settings.heads)
                      .getOutput();
    name(partOf("output", i));
    Value weight = readWeight(current->prefix + "." + partOf("output", i) + ".weight");
    results.push_back(LinearOp::create(b, sequence(1, current->width, residualType), mixed, weight,
                                       i == 0 ? parameter("output.bias") : Value()));
  }
  return results;
}

/// Each row asks the parts of one segment's row, which is spread to it. Without such a row keys and
/// values are zeros.
Value StageWriter::askParts(const Attend &settings, Value x, Value over) {
  const Segmentation &of = segmentations[settings.segments];
  SequenceType type = sequence(current->factor, settings.heads * settings.headSize, computeType);
  auto spread = [&](const char *what, int64_t part) -> Value {
    Value rows = linear(partOf(what, part), over, computeType);
    name(partOf(what, part) + ".spread");
    return SpreadSegmentsOp::create(b, type, rows, of.counts, of.ends, settings.by);
  };
  Value query = linear("query", x, computeType);
  SmallVector<Value> keys, values;
  for (int64_t i = 0; i < settings.parts; ++i) {
    keys.push_back(spread("key", i));
    values.push_back(spread("value", i));
  }
  name("mix");
  Value mixed = AttendPartsOp::create(b, type, query, keys, values, settings.heads);
  return linear("output", mixed, residualType);
}

Value StageWriter::stage(const Attend &settings) {
  Value x = stored("rows", streams[current->input]);
  auto [kind, epsilon] = settings.norm;
  Value own = norm("own", kind, epsilon, x, computeType);
  Value over =
      norm("over", kind, epsilon, stored("over.rows", streams[current->second]), computeType);
  SmallVector<Value> terms = {x};
  if (settings.asks) {
    terms.append(askSegments(settings, own, over));
  } else {
    terms.push_back(askParts(settings, own, over));
  }
  name("sum");
  return map(terms, [&](ArrayRef<Value> values) {
    Value sum = values.front();
    for (Value value : values.drop_front()) {
      sum = arith::AddFOp::create(b, sum, value);
    }
    return sum;
  });
}

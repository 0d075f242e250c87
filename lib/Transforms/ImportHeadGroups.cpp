// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of heads in groups, each with keys, values and a mask of its own (docs/spec.md, "Groups
// of heads").
#include "ImportStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

/// What a group's keys and values are linear maps of: another stream, or means of rows of x, the
/// layer's own input.
Value StageWriter::keysOf(const Layer &settings, size_t group, Value x) {
  const HeadGroup &heads = settings.groups[group];
  std::string block = "attention." + std::to_string(group);
  if (!heads.isPooled) {
    Value over = streams[current->sources[group]];
    return settings.placement == Placement::Pre
               ? norm(block + ".over", settings.norm, settings.epsilon, over, computeType)
               : over;
  }
  if (heads.factor == 1) {
    return x;
  }
  name(block + ".shorten");
  Type element = cast<SequenceType>(x.getType()).getElement();
  if (heads.isMoving) { // a group that ends at each row
    return ShortenOp::create(b, sequence(current->factor, current->width, element), x, 1,
                             dispatch::ReduceKind::Add, heads.factor, /*mean=*/true);
  }
  auto type = sequence(current->factor * heads.factor, current->width, element);
  return ShortenOp::create(b, type, x, heads.factor, dispatch::ReduceKind::Add, 0, /*mean=*/true);
}

/// The groups' outputs side by side through one matrix: the sum of maps by its columns, with one
/// bias.
Value StageWriter::groupedAttention(const Layer &settings, Value x) {
  auto count = static_cast<int64_t>(settings.groups.size());
  Layer part = settings;
  part.heads /= count;
  part.keyValueHeads /= count;
  auto type = cast<SequenceType>(sequence(current->factor, current->width, residualType));
  SmallVector<Value> outputs;
  for (auto [i, group] : llvm::enumerate(settings.groups)) {
    std::string block = "attention." + std::to_string(i);
    Value keys = keysOf(settings, i, x);
    Value query = linear(block + ".query", x, computeType);
    keys = linear(block + ".kv", keys, computeType);
    part.mask = group.isMoving ? windowOfMoving(group, current->factor) : group.mask;
    part.first = group.isMoving ? group.factor - 1 : 0; // whole groups alone
    Sources sources{query, keys, 0, part.keyValueHeads * part.headSize, {}};
    Value mixed = mix(block, part, sources, group.location);
    name(block + ".output");
    Value weight = readWeight(current->prefix + "." + block + ".output.weight");
    Value bias = i == 0 ? parameter("attention.output.bias") : Value();
    outputs.push_back(LinearOp::create(b, type, mixed, weight, bias));
  }
  if (count == 1) {
    return outputs.front();
  }
  name("attention.output.sum");
  return map(outputs, [&](ArrayRef<Value> values) {
    Value sum = values.front();
    for (Value value : values.drop_front()) {
      sum = arith::AddFOp::create(b, sum, value);
    }
    return sum;
  });
}

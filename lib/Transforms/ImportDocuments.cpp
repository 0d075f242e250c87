// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bits that stand whatever decides the others: where documents end, and in the first row.
#include "ImportStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

std::string importing::documentEndName(const Boundaries &settings) {
  return "boundaries.document_end." + std::to_string(*settings.documentEnd);
}

/// Bits, and 1 where another value is. Such a bit learns nothing.
Value StageWriter::forcedAt(StringRef part, Value bits, Value where) {
  name(part);
  return map({bits, where}, [&](ArrayRef<Value> v) -> Value {
    Value isForced = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, v[1], number(0.5));
    return arith::SelectOp::create(b, isForced, number(1), v[0]);
  });
}

/// 1 where a token ends a document, or one behind where bits begin segments. A segment ends one
/// with the token that ends it, or begins one with the token that begins it.
Value StageWriter::documentBits(const Boundaries &settings, const std::string &segments,
                                bool begins) {
  auto scale = FlatSymbolRefAttr::get(b.getContext(), scaleName(1, segments));
  auto type = SequenceType::get(b.getContext(), scale, 1, b.getF32Type());
  const Segmentation *of = segments.empty() ? nullptr : &segmentations.at(segments);
  Value bits =
      !of ? Value() : stored("document_end.rows", documentBits(settings, of->outer, of->begins));
  name("document_end");
  bits = of ? SelectSegmentsOp::create(b, type, bits, of->counts, of->ends).getResult()
            : EmbedOp::create(b, type, tokensOf(""), read(documentEndName(settings))).getResult();
  if (!begins || (of && of->begins)) {
    return bits;
  }
  name("document_end.before");
  return sluice::ShiftOp::create(b, type, bits, 1);
}

/// Bits, and one where a document ends, and one of the first row where bits begin segments.
Value StageWriter::forced(const Boundaries &settings, Value bits) {
  if (settings.documentEnd) {
    Value ends = documentBits(settings, current->segments, settings.begins);
    bits = forcedAt("ended", bits, ends);
  }
  if (!settings.begins) {
    return bits;
  }
  name("first");
  Value first = PositionOp::create(b, bits.getType(), read(firstName(model, *current)));
  return forcedAt("begun", bits, first);
}

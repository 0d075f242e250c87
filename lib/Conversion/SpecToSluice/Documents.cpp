// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates bits that are always 1: at ends of documents, and in the first row.
#include "SpecToSluice.h"
#include "Tables.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Sets bits to 1 where another value is 1. Such a bit has no gradient.
static Value forceWhere(StageContext &c, StringRef part, Value bits, Value where) {
  c.setName(part);
  return c.createMap({bits, where}, [](ArrayRef<ScalarValue> v) {
    ScalarValue isForced = isAbove(v[1], v[1].get(0.5));
    return select(isForced, v[0].get(1), v[0]);
  });
}

/// Returns 1 where a token ends a document, or one token later if bits begin segments. For rows of
/// segments: a segment ends a document with the token that ends it, or begins one with the token
/// that begins it.
static Value createDocumentBits(StageContext &c, spec::BoundariesOp op, StringRef segments,
                                bool begins) {
  auto scale = FlatSymbolRefAttr::get(c.b.getContext(), getScaleName(1, segments));
  auto type = SequenceType::get(c.b.getContext(), scale, 1, c.b.getF32Type());
  const Segmentation *of = segments.empty() ? nullptr : &c.segmentations.at(segments);
  Value bits =
      !of ? Value()
          : c.materialize("document_end.rows", createDocumentBits(c, op, of->outer, of->begins));
  c.setName("document_end");
  bits = of ? SelectSegmentsOp::create(c.b, type, bits, of->counts, of->ends).getResult()
            : EmbedOp::create(c.b, type, c.getTokens(), c.read(getDocumentEndName(op))).getResult();
  if (!begins || (of && of->begins)) {
    return bits;
  }
  c.setName("document_end.before");
  return c.createShift(bits, 1);
}

Value spec_to_sluice::createForcedBits(StageContext &c, spec::BoundariesOp op, Value bits) {
  bool begins = op.beginsSegments();
  if (op.getDocumentEnd()) {
    Value ends = createDocumentBits(c, op, getSegmentsName(c.type), begins);
    bits = forceWhere(c, "ended", bits, ends);
  }
  if (!begins) {
    return bits;
  }
  c.setName("first");
  Value first = PositionOp::create(c.b, bits.getType(), c.read(getFirstRowName(c.model, op)));
  return forceWhere(c, "begun", bits, first);
}

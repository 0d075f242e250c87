// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segment scans: exact.
#include "Segments.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

LogicalResult sluice::oracle::judgeSegmentScan(dispatch::SegmentScanOp op,
                                               const OracleLaunch &launch, Judgement &judgement) {
  TensorRows bits(op.getBits(), launch.operands[0]);
  ValueComparison counts(op, launch, 0, judgement), ends(op, launch, 1, judgement),
      totals(op, launch, 2, judgement);
  DomainRows rows(op, launch);
  bool isDense = cast<RankedTensorType>(op.getBits().getType()).getRank() == 2;
  int64_t positions = rows.positions(), most = ends.stored().width();
  for (int64_t b = 0; b < op.getDomain().getBatch(); ++b) {
    int64_t count = 0;
    for (int64_t t = 0; t < positions; ++t) {
      int64_t row = b * positions + t;
      double bit = isDense ? bits.at(b, t).value : bits.at(row, 0).value;
      if (rows.isValid(row) && bit > 0.5) {
        if (count < most) {
          ends.check(b, count, {double(t), 0});
        }
        ++count;
      }
      counts.check(b, t, {double(count), 0});
    }
    for (int64_t m = count; m < most; ++m) {
      ends.check(b, m, {double(positions), 0});
    }
    totals.check(b, 0, {double(count), 0});
    totals.check(b, 1, {double(most), 0});
  }
  return success();
}

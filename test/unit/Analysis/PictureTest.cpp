// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pictures: bands, reads of a row, leaks, legends.
#include "sluice/Picture/Picture.h"
#include "Imported.h"
#include "sluice/Explain/Advice.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Picture/PictureModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <map>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {
Picture drawn(Imported &model, std::optional<int64_t> row = std::nullopt) {
  std::string error;
  std::optional<Picture> picture =
      makePicture(*model.module, checkCausality(*model.module, /*replay=*/false), row, error);
  EXPECT_TRUE(picture) << error;
  return picture ? *picture : Picture();
}

std::vector<std::string> getLabelNames(const Picture &picture) {
  std::vector<std::string> labels;
  for (const PictureBand &band : picture.bands) {
    labels.push_back(band.label);
  }
  return labels;
}
} // namespace

TEST(Pictures, GroupsEqualLayersInOneBand) {
  Imported model(R"({ "op": "hourglass", "hierarchy": "2@1 8@4 1@1" },)");
  Picture picture = drawn(model);
  EXPECT_EQ(getLabelNames(picture),
            (std::vector<std::string>{"tokens", "2 layers, causal", "average of 4",
                                      "8 layers, causal", "add", "layer, causal"}));
  ASSERT_EQ(picture.edges.size(), 6u);
  EXPECT_EQ(picture.edges[1].label, "shift 3");
  EXPECT_EQ(picture.edges[1].kind, PictureEdge::Kind::Group);
  EXPECT_EQ(picture.edges[3].below, 1u) << "the skip";
  EXPECT_EQ(picture.edges[4].label, "upsample 4");
  EXPECT_FALSE(picture.leak);
}

/// Boxes match exactly the reads of the row in every band.
TEST(Pictures, ShowsTheRowWithMostHoles) {
  Imported model(R"({ "op": "hourglass", "hierarchy": "0@1 2@4 0@1" },)");
  Picture picture = drawn(model);
  EXPECT_EQ(picture.row % 4, 3);
  std::vector<bool> tokens(static_cast<size_t>(picture.length));
  for (int64_t token = 0; token <= picture.row; ++token) {
    tokens[static_cast<size_t>(token)] = token <= picture.row - 3 || token == picture.row;
  }
  EXPECT_EQ(picture.bands[0].seen, tokens);
}

TEST(Pictures, DifferentMasksHaveSeparateBands) {
  Imported model(R"({ "op": "layer" }, { "op": "layer", "mask": {"window": [0, 4]} },
    { "op": "layer", "mask": {"window": [0, 4]} },)");
  EXPECT_EQ(getLabelNames(drawn(model)),
            (std::vector<std::string>{"tokens", "layer, causal", "2 layers, window 0 to 4"}));
}

TEST(Pictures, ShowsThePathOfALeak) {
  Imported model(R"({ "op": "shift", "by": 2 }, { "op": "shorten", "factor": 4 }, { "op": "layer" },
    { "op": "upsample", "factor": 4 }, { "op": "add", "with": "x" },)");
  Picture picture = drawn(model);
  ASSERT_TRUE(picture.leak);
  ASSERT_GE(picture.leakPath.size(), 3u);
  EXPECT_EQ(picture.leakPath.front(), std::pair(size_t{0}, *picture.leak));
  EXPECT_EQ(picture.leakPath.back(), std::pair(picture.bands.size() - 1, picture.row));
  EXPECT_FALSE(picture.leakByGrowing);
}

TEST(Pictures, MarksEveryLeakingToken) {
  Imported model(R"({ "op": "shorten", "factor": 4 }, { "op": "upsample", "factor": 4 },)");
  Picture picture = drawn(model);
  EXPECT_EQ(picture.row, 0);
  EXPECT_EQ(picture.leaks, (std::vector<int64_t>{1, 2, 3}));
  std::string svg = renderSvg(picture);
  size_t marked = 0;
  for (size_t at = 0; (at = svg.find("class=\"box leak\"", at)) != std::string::npos; ++at) {
    ++marked;
  }
  EXPECT_EQ(marked, 3u);
}

/// The legend explains each kind of drawn mark, and no other.
TEST(Pictures, LegendExplainsTheMarks) {
  Imported model(R"({ "op": "hourglass", "hierarchy": "1@1 1@4 1@1" },)");
  std::string svg = renderSvg(drawn(model));
  for (const char *words :
       {"read by the row", "a group that makes one position", "one position handed to several",
        "what attention reads", "read through a shift", "a stream that is read further up",
        "the row's own token", "later than the row"}) {
    EXPECT_TRUE(has(svg, words)) << words;
  }
  EXPECT_FALSE(has(svg, "the way from that token")) << "no leak";
  Imported leaky(R"({ "op": "shorten", "factor": 4 }, { "op": "upsample", "factor": 4 },)");
  svg = renderSvg(drawn(leaky));
  EXPECT_TRUE(has(svg, "the way from that token to the row"));
  EXPECT_TRUE(has(svg, "tokens that the row reads and must not see"));
  EXPECT_FALSE(has(svg, "what attention reads"));
}

TEST(Pictures, RejectsTooWidePicture) {
  Imported model(R"({ "op": "hourglass", "hierarchy": "1@1 1@1024 1@1" },)");
  std::string error;
  CausalVerdict verdict = checkCausality(*model.module);
  EXPECT_FALSE(makePicture(*model.module, verdict, std::nullopt, error));
  EXPECT_TRUE(has(error, "more than the 256 tokens")) << error;
  Imported small(R"({ "op": "hourglass", "hierarchy": "0@1 1@3 0@1" },)");
  EXPECT_FALSE(makePicture(*small.module, checkCausality(*small.module), 256, error));
  EXPECT_TRUE(has(error, "expected a row below 256, found 256")) << error;
}

/// Passes of a scan shift by up to the context. They do not widen the picture, and form one band.
TEST(Pictures, DrawsAScanAsOneBand) {
  Imported average(R"({ "op": "boundaries", "name": "chunks", "ratio": 4, "at": "start" },
    { "op": "shorten", "segments": "chunks", "method": "first" },
    { "op": "upsample", "segments": "chunks", "method": "smooth", "by": 1 },)");
  Picture picture = drawn(average);
  EXPECT_EQ(llvm::count(getLabelNames(picture), "moving average"), 1);
  EXPECT_LE(picture.length, 40);
  EXPECT_LE(picture.bands.size(), 10u) << "not two of each of nine passes";
  auto scan = llvm::find_if(
      picture.edges, [](const PictureEdge &edge) { return edge.kind == PictureEdge::Kind::Scan; });
  ASSERT_NE(scan, picture.edges.end());
  EXPECT_EQ(scan->reads.back().first, 0) << "all segments before";
  EXPECT_EQ(scan->reads.back().last, scan->reads.back().position);
  EXPECT_TRUE(has(renderSvg(picture), "what attention, an average or maxima read"));

  Imported maxima(R"({ "op": "boundaries", "name": "words", "rule": "every", "factor": 4 },
    { "op": "shorten", "segments": "words", "method": "max" },
    { "op": "upsample", "segments": "words" },)");
  picture = drawn(maxima);
  EXPECT_EQ(llvm::count(getLabelNames(picture), "maxima within segments"), 1);
  EXPECT_LE(picture.length, 40);
}

namespace {

/// A decoder whose rows read an encoder's complete sequence, with two losses of one stream.
const char *const withEncoder = R"(
module attributes {sluice.batch = 1 : i64, sluice.context = 16 : i64, sluice.vocabulary = 5 : i64} {
  sluice.axis @target
  sluice.axis @source
  sluice.scale @s1 on @target factor 1
  sluice.scale @e1 on @source factor 1
  sluice.parameter @w : tensor<5x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 5>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>, %e: !sluice.seq<@e1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.embed %e, %w : (!sluice.seq<@e1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@e1, 4, f32>
    %c, %lse = sluice.attention %x, %y, %y attributes {heads = 1, kv_heads = 1, head_size = 4, query_column = 0,
        key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (0 == 0)>} {
    ^bb0(%s: f32, %i: i32, %j: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@e1, 4, f32>, !sluice.seq<@e1, 4, f32>)
        -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %l = sluice.cross_entropy %c, %w, %t {offset = 1} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>,
        !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    %m = sluice.cross_entropy %c, %w, %t {offset = 2} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>,
        !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
})";

} // namespace

/// Its tokens are not the target's tokens.
TEST(Pictures, DrawsEncoderTokensInASeparateBand) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                      arith::ArithDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(withEncoder, &context);
  ASSERT_TRUE(module);
  CausalVerdict verdict = checkCausality(*module);
  ASSERT_EQ(verdict.kind, VerdictKind::Proved) << verdict.message;
  findAdvice(*module, verdict);
  EXPECT_TRUE(verdict.warnings.empty());
  ASSERT_GE(verdict.notes.size(), 1u);
  EXPECT_TRUE(has(verdict.notes[0].text, "row t sees its own token alone "))
      << verdict.notes[0].text;
  std::string error;
  std::optional<Picture> picture = makePicture(*module, verdict, 5, error);
  ASSERT_TRUE(picture) << error;
  EXPECT_EQ(getLabelNames(*picture),
            (std::vector<std::string>{"tokens", "other tokens", "attention, bidirectional"}));
  EXPECT_EQ(llvm::count(picture->bands[0].seen, true), 1);
  EXPECT_EQ(static_cast<int64_t>(llvm::count(picture->bands[1].seen, true)), picture->length);
}

/// Segments end at marks: of tokens 0 to 6, the first two have three.
TEST(Pictures, SegmentsOfATextEndAtItsMarks) {
  Imported model(R"({ "op": "boundaries", "name": "words", "predictor": 2, "prior": 0.3 },
    { "op": "shorten", "segments": "words" }, { "op": "layer" },
    { "op": "upsample", "segments": "words" }, { "op": "add", "with": "x" },)");
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  const std::string text = "\1\2\3|\4\5\6|\1";
  auto countTokensInRow = [&](int64_t row) {
    std::string error, seen;
    std::optional<Picture> picture = makePicture(*model.module, verdict, row, error, text);
    EXPECT_TRUE(picture) << error;
    for (bool isSeen : picture ? picture->bands.front().seen : std::vector<bool>()) {
      seen += isSeen ? '1' : '0';
    }
    return seen;
  };
  EXPECT_EQ(countTokensInRow(1), "0100000");
  EXPECT_EQ(countTokensInRow(4), "1110100");
  EXPECT_EQ(countTokensInRow(5), "1111110");
  EXPECT_EQ(countTokensInRow(6), "1111111");
  std::string error;
  std::optional<Picture> picture = makePicture(*model.module, verdict, 4, error, text);
  ASSERT_TRUE(picture) << error;
  EXPECT_EQ(picture->bands[1].axis, "words");
  EXPECT_EQ(picture->bands[1].starts, (std::vector<int64_t>{0, 3, 6, 6}));
  EXPECT_FALSE(makePicture(*model.module, verdict, 4, error, "\1\2"));
  EXPECT_TRUE(has(error, "expected | after each byte that ends a segment")) << error;
  EXPECT_FALSE(makePicture(*model.module, verdict, 4, error, "\1|\7"));
  EXPECT_TRUE(has(error, "expected bytes below the vocabulary of 7, found 7")) << error;
}

/// Every token is space-like: one after another begins no segment, the first token and one after a
/// document do.
TEST(Pictures, SegmentsOfATextBeginAfterDocuments) {
  Imported model(R"({ "op": "boundaries", "name": "words", "rule": "space_like", "at": "start",
      "document_end": 6 }, { "op": "shorten", "segments": "words", "method": "first" },
    { "op": "upsample", "segments": "words" }, { "op": "add", "with": "x" },)");
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  const std::map<int64_t, std::vector<bool>> rows = {{2, {true, false, true, false, false}},
                                                     {3, {false, false, false, true, false}},
                                                     {4, {false, false, false, true, true}}};
  for (const auto &[row, seen] : rows) {
    std::string error;
    auto picture = makePicture(*model.module, verdict, row, error, "\1\2\6\3\4");
    ASSERT_TRUE(picture) << error;
    EXPECT_EQ(picture->bands.front().seen, seen) << row;
  }
}

/// Segments that begin at bits begin after a mark, and with the first token; nothing follows the
/// last of them.
TEST(Pictures, SegmentsOfATextBeginAfterItsMarks) {
  Imported model(R"({ "op": "boundaries", "name": "words", "at": "start", "predictor": 2,
      "rule": "whitespace" },
    { "op": "shorten", "segments": "words", "method": "first" }, { "op": "layer" },
    { "op": "upsample", "segments": "words" }, { "op": "add", "with": "x" },)");
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  std::string error, seen;
  std::optional<Picture> picture =
      makePicture(*model.module, verdict, 4, error, "\1\2\3|\4\5\6|\1");
  ASSERT_TRUE(picture) << error;
  for (bool isSeen : picture->bands.front().seen) {
    seen += isSeen ? '1' : '0';
  }
  EXPECT_EQ(seen, "1001100");
  const PictureBand &pooled = picture->bands[1];
  EXPECT_EQ(pooled.label, "first rows of segments");
  EXPECT_TRUE(llvm::is_contained(getLabelNames(*picture), "own segment"));
  ASSERT_EQ(pooled.starts.size(), 5u);
  EXPECT_EQ(std::vector(pooled.starts.begin(), pooled.starts.begin() + 3),
            (std::vector<int64_t>{0, 3, 6}));
  EXPECT_GE(pooled.starts[3], picture->length);
}

TEST(Pictures, NamesLshAttention) {
  Imported model(R"({ "op": "layer", "lsh": { "buckets": 2 } },)");
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  std::string error;
  std::optional<Picture> picture = makePicture(*model.module, verdict, 1, error);
  ASSERT_TRUE(picture) << error;
  EXPECT_TRUE(llvm::is_contained(getLabelNames(*picture), "LSH attention"));
}

TEST(Pictures, EscapesNames) {
  Picture picture;
  picture.name = "<a> & \"b\"";
  picture.length = 1;
  picture.target = 1;
  picture.bands.push_back({"tokens", {}, 1, "", {}, {true}});
  std::string svg = renderSvg(picture);
  EXPECT_TRUE(has(svg, "&lt;a&gt; &amp; &quot;b&quot;")) << svg;
  EXPECT_FALSE(has(svg, "<a>"));
}

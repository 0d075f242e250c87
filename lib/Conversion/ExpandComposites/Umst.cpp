// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The encoder of the universal multi-scale transformer (Li et al. 2022).
#include "Expansions.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

class UmstExpander {
public:
  UmstExpander(UmstOp op, StageAppender &appender)
      : op(op), stages(op, appender), followsCode(op.getMode() == Fidelity::reference_code) {}

  Value run() {
    Value x = op.getInput();
    for (int64_t i = 0; i < op.getCount(); ++i) {
      x = addLayer(i, x);
    }
    return add("norm", x, {}, getSettings({"norm", "epsilon"}));
  }

private:
  Value add(StringRef word, ValueRange operands, ArrayRef<StageSetting> settings = {},
            const NamedAttrList &own = {}) {
    return stages.add(word, operands, settings, own);
  }
  NamedAttrList getSettings(ArrayRef<StringRef> keys) {
    NamedAttrList settings;
    for (StringRef key : keys) {
      if (Attribute value = getKeyValue(op, key)) {
        settings.set(key, value);
      }
    }
    return settings;
  }
  Value addDropout(Value x) { return add("dropout", x, {{"rate", op.getDropoutAttr()}}); }

  /// Adds sums over the neighbours of rows: inside words, or of words over edges.
  Value addSums(Value x, bool areWords, StringRef method, StringRef activation = "none",
                const NamedAttrList &own = {}) {
    SmallVector<StageSetting> settings = {{"method", method}, {"activation", activation}};
    StringAttr edges = areWords ? op.getEdgesAttr() : op.getIntraEdgesAttr();
    if (!edges) {
      return add("graph_convolution", {x, op.getSegments()}, settings, own);
    }
    settings.push_back({"edges", edges});
    return add("graph_convolution", x, settings, own);
  }

  /// Adds x + P drop(relu(P norm(x) W + b)) inside words and, without the second P, between words.
  /// Graph attention is x + drop(relu(A norm(x) W)).
  Value addGraph(Value x, bool areWords, GraphUse use, int64_t layer) {
    if (use == GraphUse::none) {
      return x;
    }
    bool isMean = use == GraphUse::pooling || (followsCode && !areWords);
    StringRef method = use == GraphUse::gat ? "attention" : isMean ? "mean" : "normalized";
    Value y = add("norm", x, {}, getSettings({"norm", "epsilon"}));
    if (use == GraphUse::gat) {
      y = addDropout(addSums(y, areWords, method, "relu", getSharing(areWords, layer)));
      return add("add", {y, x});
    }
    y = addSums(y, areWords, method);
    if (use == GraphUse::convolution) {
      y = addMap(y, areWords, layer);
      if (!areWords || followsCode) {
        y = addSums(y, areWords, method);
        y = addDropout(y);
      }
    }
    return add("add", {y, x});
  }

  /// Returns the name under which `graph_maps` shares weights of a layer, if it does.
  NamedAttrList getSharing(bool areWords, int64_t layer) {
    std::string name = getPath(op) + (op.getGraphMaps() == GraphMaps::scales
                                          ? ".layer." + std::to_string(layer)
                                          : StringRef(areWords ? ".inter" : ".intra").str());
    NamedAttrList own;
    bool isShared = op.getGraphMaps() == GraphMaps::scales ||
                    (op.getGraphMaps() == GraphMaps::layers && op.getCount() > 1);
    if (isShared) {
      own.set("share", StringAttr::get(op.getContext(), name));
    }
    return own;
  }

  Value addMap(Value y, bool areWords, int64_t layer) {
    y = add("project", y, {{"activation", "relu"}, {"bias", op.getBias()}},
            getSharing(areWords, layer));
    return addDropout(y);
  }

  Value addLayer(int64_t layer, Value x) {
    Value rows = addGraph(x, /*areWords=*/false, op.getIntra(), layer);
    SmallVector<StringRef> keys = {"heads",   "head_size",         "norm", "epsilon",
                                   "dropout", "attention_dropout", "bias"};
    if (op.getInter() == GraphUse::none) {
      x = addPlainAttention(rows, keys);
    } else {
      StringRef method = followsCode ? "normalized" : "average";
      Value words = add("shorten", {rows, op.getSegments()}, {{"method", method}});
      words = addGraph(words, /*areWords=*/true, op.getInter(), layer);
      keys.append({"vectors", "shared_maps", "expand"});
      x = add("rectified_attention", {rows, words}, {}, getSettings(keys));
    }
    return add("feed_forward", x, {},
               getSettings({"norm", "epsilon", "activation", "dropout", "feed_forward_dropout",
                            "bias", "feed_forward"}));
  }

  Value addPlainAttention(Value x, ArrayRef<StringRef> keys) {
    auto mask = MaskAttr::get(op.getContext(), MaskShape::bidirectional, 0, 0);
    return add("layer", x, {{"feed_forward", int64_t{0}}, {"mask", mask}}, getSettings(keys));
  }

  UmstOp op;
  InsideStages stages;
  const bool followsCode;
};

} // namespace

Value spec::expandUmst(UmstOp op, StageAppender &appender) {
  return UmstExpander(op, appender).run();
}

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// H-Net (Hwang et al. 2025).
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

/// Expands levels: a level is an encoder, a router, the layers on chunks or another level, and a
/// decoder.
class HnetExpander {
public:
  HnetExpander(HnetOp op, StageAppender &appender)
      : op(op), list(op, appender), widths({cast<StreamType>(op.getInput().getType()).getWidth()}) {
    if (op.getWidth()) {
      llvm::append_range(widths, *op.getWidth());
    }
  }

  Value run() {
    addLevel(op.getLayers(), 0);
    return list.getLast();
  }

private:
  void addLevel(ArrayAttr counts, size_t depth) {
    list.addLayers(getCount(counts, 0), "local");
    list.addNorm("local");
    Value encoded = list.getLast();
    Value residual = list.add("project", {{"bias", false}, {"initial", "zeros"}});
    DictionaryAttr own = getCut(depth);
    bool isRule = own && own.get("rule");
    Value segments = addBoundaries(encoded, own, depth);
    list.add("shorten", {encoded, segments}, {{"method", "first"}});
    int64_t inner = depth + 1 < widths.size() ? widths[depth + 1] : 0;
    list.resize(inner);
    if (auto deeper = dyn_cast<ArrayAttr>(counts[1])) {
      addLevel(deeper, depth + 1);
    } else {
      list.addLayers(getCount(counts, 1), "global");
      list.addNorm("global");
    }
    list.resize(inner > 0 ? widths[depth] : 0);
    list.add("upsample", {list.getLast(), segments}, {{"method", isRule ? "repeat" : "smooth"}});
    list.add("add", {list.getLast(), residual}, {});
    list.addLayers(getCount(counts, 2), "local");
    list.addNorm("local");
  }

  /// Returns the settings of a level's boundaries; null if it has none.
  DictionaryAttr getCut(size_t depth) {
    return op.getBoundaries() && depth < op.getBoundaries()->size()
               ? cast<DictionaryAttr>((*op.getBoundaries())[depth])
               : DictionaryAttr();
  }

  Value addBoundaries(Value encoded, DictionaryAttr own, size_t depth) {
    // A stage with one level may have an object instead of a list.
    DictionaryAttr keys = getNestedKeys(op, "boundaries." + std::to_string(depth));
    if (keys.empty()) {
      keys = getNestedKeys(op, "boundaries");
    }
    std::string name = depth > 0 ? "hnet_" + std::to_string(depth + 1) : "hnet";
    SmallVector<StageSetting> settings = {{"name", StringRef(name)}, {"at", "start"}};
    if (!own || !own.get("rule")) {
      Builder b(op.getContext());
      settings.push_back(
          {"ratio", TargetAttr::get(op.getContext(), b.getF64FloatAttr(6), FloatAttr(), 0, 0)});
    }
    return list.addBoundaries(encoded, own, keys, settings);
  }

  HnetOp op;
  StageList list;
  SmallVector<int64_t> widths; ///< width of the stream, then widths of the levels' coarse scales
};

} // namespace

Value spec::expandHnet(HnetOp op, StageAppender &appender) {
  return HnetExpander(op, appender).run();
}

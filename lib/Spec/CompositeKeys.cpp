// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys of the composite stages that are lists of others (Composites.cpp).
#include "LayerKeys.h"
#include "sluice/Spec/Spec.h"

namespace sluice::spec {
namespace {

const KeyInfo three = {"layers",
                       "array of three integers >= 0",
                       "layers before the segments, on them, and behind",
                       "required",
                       {}};
const KeyInfo two = {
    "layers", "array of two integers >= 0", "layers on patches, and in each", "required", {}};
const KeyInfo local = {"local", "object", "settings of the layers on the finer scale", "{}", {}};
const KeyInfo global = {"global", "object", "settings of the layers on the coarse scale", "{}", {}};
const KeyInfo width = {
    "width", "integer >= 1", "width of the coarse scale", "that of the stream", {}};

KeyInfo method(std::string_view otherwise) {
  return {
      "method", "string", "what makes a row of a segment", otherwise, {"average", "max", "last"}};
}

KeyInfo cut(std::string_view otherwise) {
  return {"boundaries", "object", "settings of a boundaries stage", otherwise, {}};
}

} // namespace

Keys compositeKeys(Op op) {
  switch (op) {
  case Op::Dynamic:
    return {three, cut("required"), method("average"), width, local, global};
  case Op::Megabyte:
    return {
        two, {"patch", "integer >= 2", "bytes of a patch", "required", {}}, width, local, global};
  case Op::BlockTransformer:
    return {
        two, {"block", "integer >= 2", "tokens of a block", "required", {}}, width, local, global};
  case Op::SpaceByte:
    return {three, cut(R"({"rule": "space_like", "at": "start"})"), width, local, global};
  case Op::Hnet:
    return {{"layers",
             "array of three",
             "layers before the chunks, on them, and behind; an array in place of the second is "
             "another level",
             "required",
             {}},
            {"boundaries",
             "object, or array of them by level",
             "settings of boundaries stages: routers, or rules",
             R"({"ratio": 6, "at": "start"})",
             {}},
            {"width",
             "integer >= 1, or array of them by level",
             "width of the coarse scale",
             "that of the stream",
             {}},
            local,
            global};
  case Op::Blt:
    return {
        three,
        cut("required"),
        method("max"),
        {"parts", "integer from 1 to 64", "queries of a patch, and keys that its row is", "2", {}},
        width,
        local,
        global};
  default:
    return {};
  }
}

} // namespace sluice::spec

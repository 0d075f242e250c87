// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors that several stages share.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice {

/// Returns the path of the stage in the spec file: "stages.3" for "stages.3.inside.1".
inline llvm::StringRef getWrittenPath(llvm::StringRef path) {
  return path.take_front(path.find(".inside."));
}

/// The name that a tensor would have if its stage did not share it.
struct SharedName {
  std::string name;
  spec::StageInterface stage;
  llvm::StringRef key; ///< key of the stage: "share", "tied" or "relative"
  spec::WeightOp owner;
};

/// Leaves one spec.weight of tensors that stages share, the first, and sets `shared_weights` of the
/// other stages. Keys that share are "share", "tied" and the value "xl_shared" of "relative".
/// Returns the names of the other tensors. Reports an error where tensors of one share differ, at
/// the later place, with the first one named.
llvm::FailureOr<llvm::SmallVector<SharedName>> shareWeights(spec::ModelOp model);

} // namespace sluice

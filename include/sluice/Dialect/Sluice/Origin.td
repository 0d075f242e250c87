// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stage of a spec that an op came from.

#ifndef SLUICE_ORIGIN_TD
#define SLUICE_ORIGIN_TD

include "mlir/IR/AttrTypeBase.td"

class Sluice_Attr<string name, string mnemonic_> : AttrDef<Sluice_Dialect,
                                                           name> { let mnemonic = mnemonic_; }

def Sluice_Origin : Sluice_Attr<"Origin", "origin"> {
  let summary = "The stage of a spec, and the part of it, that an op came from";
  let description = [{
    `stage` is the path of the stage, the prefix of its weights' names. `part` is the importer's
    name for the op's computation in the stage. Messages, certificates and a step's states name
    values by both. No kernel depends on an origin.

    An origin is the metadata of an op's fused location, which wraps the source location of the
    stage:

    ```mlir
    %y = sluice.linear %x, %w : ...
        loc(fused<#sluice.origin<stage = "stages.1", part = "attention.output">>["model.json":7:5])
    ```

    An op that replaces several others, and a dispatch, have a set of origins: a fused location of
    the original locations. The first is the origin of the op that was retained, or of the
    dispatch's root op. Messages use the name and the source location of the first.

    The location is more robust than a discardable attribute of the op for three reasons. Every
    builder needs a location, so each pass that rewrites an op propagates the origins. Equality
    ignores locations: `cse` merges equal ops of two stages, and equal dispatches share a kernel. A
    hash of a kernel does not change with the names of stages. The cost: IR shows origins only with
    `--mlir-print-debuginfo`, and `--strip-debuginfo` removes them. Upstream's `cse` retains only
    the origins of the first op; `sluice-merge-ops` retains the origins of all.
  }];
  let parameters = (ins StringRefParameter<"path of the stage">:$stage,
                    StringRefParameter<"part of the stage">:$part);
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    /// Returns "stages.1.inside.0.attention.mix" for the part "attention.mix" of
    /// "stages.1.inside.0".
    std::string getName() const;
    /// Returns true if the path of a stage, or of a part of a stage, contains this origin.
    bool isWithin(::llvm::StringRef path) const;
    /// Returns the number of stages that contain the stage: 2 for "stages.1.inside.0.inside.3".
    int64_t getDepth() const;
  }];
}

#endif

// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings of layers as data for editors, what stages of other kinds share with them, and keys of
// boundaries.
#pragma once

#include "sluice/Spec/Schema.h"

namespace sluice::spec {

using Keys = std::vector<KeyInfo>;

extern const KeyInfo normKey, normEpsilonKey;
extern const Keys layerSettings;
/// Of objects in them.
extern const Keys maskKeys, sourceKeys, scaleKeys, relativeKeys, rotaryKeys, lshKeys;

/// Blocks of rows, of a mask and of a stage.
KeyInfo blockKey(std::string_view otherwise);
KeyInfo blockStartKey(std::string_view otherwise);

/// Of the stage that cuts into segments.
Keys boundaryKeys();
/// The own keys of a composite stage that is a list of others.
Keys compositeKeys(Op op);

} // namespace sluice::spec

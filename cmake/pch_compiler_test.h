// Precompiled header of tests that see MLIR: the usual headers of MLIR, GoogleTest, and the
// dialects.
#pragma once
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "pch.h"
#include "pch_test.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Emulator/Emulator.h"

#pragma once
#include "mlir/IR/BuiltinOps.h"
namespace sluice { struct CausalVerdict { bool proved = true; std::vector<std::string> modes; std::string format() const { return {}; } };
inline CausalVerdict checkCausality(mlir::ModuleOp) { return {}; } }

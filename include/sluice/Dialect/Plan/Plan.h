// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan dialect: named memory, launches, entry points.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "sluice/Dialect/Facts.h"
#include "sluice/Dialect/Plan/PlanDialect.h.inc"

namespace sluice::plan {

/// Attributes of a kernel's variant, i64: the bytes of a launch's workspace, and the number of i32
/// counters immediately before it. 0 by default.
constexpr llvm::StringLiteral workspaceBytesName = "workspace_bytes", countersName = "counters";
constexpr int64_t counterBytes = 4;
/// Alignment of a workspace: a cache line, which vector accesses and the counters' lines require.
constexpr int64_t workspaceAlignment = 64;

/// Returns true if a guard allows skipping a launch that would write nothing: `due.N`, 1 if some
/// batch row computes rows by the step's schedule N. Any other guard forbids the launch
/// (DispatchDialect).
inline bool isPermission(llvm::StringRef guard) { return guard.starts_with("due."); }

/// The resource that `plan.bind` reads and `plan.store` writes. Two places may overlap
/// (flat:parameters holds every parameter:NAME), so it is one resource.
struct NamedMemory : public mlir::SideEffects::Resource::Base<NamedMemory> {
  llvm::StringRef getName() final { return "plan.named_memory"; }
};

} // namespace sluice::plan

#define GET_OP_CLASSES
#include "sluice/Dialect/Plan/PlanOps.h.inc"

// Precompiled header of the code generators for GPUs: NVVM's header alone takes 12 s to read.
#pragma once
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "pch.h"

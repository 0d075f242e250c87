// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of the plan.
#include "KernelJson.h"

using namespace mlir;
using namespace sluice;
namespace json = llvm::json;

static json::Object stageToJson(const KernelRecord::StageRecord &stage) {
  json::Object object{{"symbol", stage.symbol},
                      {"blocks", stage.blocks},
                      {"threads", stage.threads},
                      {"shared_bytes", stage.sharedBytes}};
  if (stage.usage) {
    object["registers"] = stage.usage->registers;
    object["spills"] = stage.usage->spillBytes;
    object["stack_bytes"] = stage.usage->stackBytes;
    object["static_shared_bytes"] = stage.usage->sharedBytes;
  }
  return object;
}

static json::Object variantsToJson(const KernelRecord &record) {
  json::Object variants;
  for (const KernelRecord::Variant &variant : record.variants) {
    json::Object object{{"symbol", variant.symbol},
                        {"items", variant.items},
                        {"scratch_bytes", variant.scratchBytes}};
    if (variant.workspaceBytes > 0) {
      object["workspace_bytes"] = variant.workspaceBytes;
      object["counters"] = variant.counters;
    }
    if (variant.phases > 1) {
      object["phases"] = variant.phases;
    }
    variants[variant.target] = std::move(object);
  }
  for (const KernelRecord::DeviceVariant &variant : record.deviceVariants) {
    json::Array stages;
    for (const KernelRecord::StageRecord &stage : variant.stages) {
      stages.push_back(stageToJson(stage));
    }
    json::Object object{{"module", variant.module},
                        {"stages", std::move(stages)},
                        {"workspace_bytes", variant.workspaceBytes},
                        {"planned_bytes", int64_t(variant.plannedBytes)},
                        {"counters", variant.counters}};
    if (variant.library) {
      object["library"] = json::Object{{"name", "cublaslt"},
                                       {"version", variant.library->version},
                                       {"algorithm", variant.library->algorithm}};
    }
    variants[variant.target->chip.str()] = std::move(object);
  }
  return variants;
}

static json::Object productToJson(const cuda::Product &product) {
  return json::Object{{"rows", product.rows},
                      {"columns", product.columns},
                      {"depth", product.depth},
                      {"by_input", product.byInput},
                      {"type", product.isF32 ? "f32" : "bf16"},
                      {"input_stride", product.inputStride},
                      {"weight_stride", product.weightStride},
                      {"result_stride", product.resultStride}};
}

static json::Array operandsToJson(const KernelRecord &record) {
  json::Array operands;
  for (const KernelRecord::Operand &operand : record.operands) {
    operands.push_back(json::Object{{"bytes", operand.bytes}, {"written", operand.written}});
  }
  return operands;
}

json::Object sluice::kernelToJson(const KernelRecord &record) {
  json::Object kernel{{"name", record.name},
                      {"kind", record.kind},
                      {"variants", variantsToJson(record)},
                      {"operands", operandsToJson(record)},
                      {"flops", static_cast<int64_t>(record.flops)},
                      {"bytes", static_cast<int64_t>(record.bytes)}};
  if (record.product) {
    kernel["product"] = productToJson(*record.product);
  }
  return kernel;
}

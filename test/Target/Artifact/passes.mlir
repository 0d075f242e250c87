// Kernels and launches as passes. Two dispatches that differ only in their operands' values share a kernel.
// RUN: sluice-opt %s --sluice-generate-kernels | FileCheck %s --check-prefix=KERNELS
// RUN: sluice-opt %s --sluice-generate-kernels=target=sm_80 | FileCheck %s --check-prefix=GPU
// RUN: sluice-opt %s --sluice-emit-plan | FileCheck %s --check-prefix=PLAN
// RUN: sluice-opt %s --sluice-plan-memory --sluice-emit-plan | FileCheck %s --check-prefix=PLAN
// RUN: not sluice-opt %s --sluice-emit-plan=target=z80 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: expected a target (cpu, cpu-amx, cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512, cpu-avx2, sm_80 or sm_90a), found 'z80'

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 64, factor = 1>

// KERNELS:     func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx2(
// KERNELS:       arith.addf %{{.*}} : vector<8xf32>
// KERNELS-NOT: func.func
// KERNELS-NOT: dispatch.

// GPU:     func.func @{{row_[0-9a-f]+}}(
// GPU:       nvvm.read.ptx.sreg.ctaid.x
// GPU:       arith.addf %{{.*}} : vector<4xf32>
// GPU-NOT: dispatch.

// PLAN-DAG:   plan.buffer "input:x" at [[X:[0-9]+]] bytes 4096 device 0
// PLAN-DAG:   plan.buffer "output:y" at [[Y:[0-9]+]] bytes 4096 device 0
// PLAN:       plan.kernel @[[K:.*]] {{{.*}}kind = "row"
// PLAN:       plan.entry @double
// PLAN-NEXT:    plan.launch @[[K]]([{{\[?}}[[X]], [[A:[0-9]+]], {{.*}}) phase "forward" after []
// PLAN-NEXT:    plan.launch @[[K]]([{{\[?}}[[A]], [[Y]], {{.*}}) phase "forward" after [0]
// PLAN-NOT:   func.func
module attributes {sluice.batch = 1 : i64, sluice.context = 64 : i64} {
  func.func @double() {
    %x = plan.bind "input:x" : tensor<1x64x16xf32>
    %a = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
    ^bb0(%r: tensor<16xf32>):
      %y = arith.addf %r, %r : tensor<16xf32>
      dispatch.yield %y : tensor<16xf32>
    } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
    %b = dispatch.rows %a attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
    ^bb0(%r: tensor<16xf32>):
      %y = arith.addf %r, %r : tensor<16xf32>
      dispatch.yield %y : tensor<16xf32>
    } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
    plan.store "output:y", %b : tensor<1x64x16xf32>
    return
  }
}

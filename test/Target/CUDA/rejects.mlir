// Ops without a GPU kernel, reported with the place of the op; of factors in f32, with the key of the spec to set.
// RUN: not sluice-opt %s --sluice-generate-kernels=target=sm_80 -split-input-file 2>&1 | FileCheck %s

#row = #dispatch.access<row, factor = 1>
#columns = #dispatch.access<columns>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @sums_in_parts(%x0: tensor<1x8x8xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: R-004: expected all column sums to have 2 parts, found 4
    %y:2 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#row], result_accesses = [#columns, #columns]} {
    ^bb0(%r0: tensor<8xf32>):
      dispatch.yield %r0, %r0 : tensor<8xf32>, tensor<8xf32>
    } : (tensor<1x8x8xf32>) -> (tensor<2x8xf32>, tensor<4x8xf32>)
    return
  }
}

// -----

#row = #dispatch.access<row, factor = 1>
#gather = #dispatch.access<gather, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @gathered_by_nothing(%x0: tensor<8x8xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: R-005: expected operand 0 to be gathered by an i32 body argument, found index -1
    %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#gather], result_accesses = [#row]} {
    ^bb0(%r0: tensor<8xf32>):
      dispatch.yield %r0 : tensor<8xf32>
    } : (tensor<8x8xf32>) -> (tensor<1x8x8xf32>)
    return
  }
}

// -----

#row = #dispatch.access<row, factor = 1>
#pairs = #dispatch.access<row[2 * p + i], group = 2, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 4, factor = 2>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @one_row_of_two(%x0: tensor<1x8x8xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: R-006: expected body argument 0 to hold 2 rows, found 'tensor<8xf32>'
    %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#pairs], result_accesses = [#row]} {
    ^bb0(%r0: tensor<8xf32>):
      dispatch.yield %r0 : tensor<8xf32>
    } : (tensor<1x8x8xf32>) -> (tensor<1x4x8xf32>)
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @rows_wider_than_the_table(%i: tensor<1x8xi32>, %v: tensor<1x8x8xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: R-007: expected rows of 9 columns
    %t = dispatch.scatter_rows %i, %v attributes {domain = #domain} : (tensor<1x8xi32>, tensor<1x8x8xf32>) -> tensor<5x9xf32>
    return
  }
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @factors_of_f32(%x: tensor<1x8x8xf32>, %w: tensor<8x8xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected factors of bf16, found 'tensor<1x8x8xf32>'; set "precision": {"compute": "bf16"} in the spec
    %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    ^bb0(%a: f32):
      dispatch.yield %a : f32
    } : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
    return
  }
}

// -----

#late = #dispatch.access<row[p - 1], factor = 1>
#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @extra_of_earlier_rows(%x: tensor<1x8x8xbf16>, %w: tensor<8x8xbf16>, %e: tensor<1x8x8xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected extra operands of access row (identity map), vector or scalar, found #dispatch.access<row
    %y = dispatch.contract %x, %w, %e attributes {domain = #domain, accesses = [#late], result_accesses = [#row]} {
    ^bb0(%a: f32, %s: f32):
      dispatch.yield %a : f32
    } : (tensor<1x8x8xbf16>, tensor<8x8xbf16>, tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
    return
  }
}

// -----

#late = #dispatch.access<row[p - 1], factor = 1>
#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @result_elsewhere(%x: tensor<1x8x8xbf16>, %w: tensor<8x8xbf16>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected results of access row (identity map), found #dispatch.access<row
    %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#late]} {
    ^bb0(%a: f32):
      dispatch.yield %a : f32
    } : (tensor<1x8x8xbf16>, tensor<8x8xbf16>) -> tensor<1x8x8xf32>
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @heads_in_no_groups(%x: tensor<1x8x28xbf16>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected heads to be a multiple of kv_heads, found 3 and 2
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 3 : i64, kv_heads = 2 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 12 : i64, value_column = 20 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x8x28xbf16>, tensor<1x8x28xbf16>, tensor<1x8x28xbf16>) -> (tensor<1x8x12xbf16>, tensor<1x8x3xf32>)
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @heads_too_wide(%x: tensor<1x8x792xbf16>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected heads of at most 256 columns on a GPU, found 264; use more heads, or compile for a CPU
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 264 : i64, query_column = 0 : i64,
        key_column = 264 : i64, value_column = 528 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x8x792xbf16>, tensor<1x8x792xbf16>, tensor<1x8x792xbf16>) -> (tensor<1x8x264xbf16>, tensor<1x8x1xf32>)
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @heads_too_wide_backward(%x: tensor<1x8x792xbf16>, %o: tensor<1x8x264xbf16>, %l: tensor<1x8x1xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected heads of at most 256 columns on a GPU, found 264
    %dx = dispatch.attention_backward %x, %x, %x, %o, %l, %o attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64,
        head_size = 264 : i64, query_column = 0 : i64, key_column = 264 : i64, value_column = 528 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } derivative {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
      dispatch.yield %g : f32
    } : (tensor<1x8x792xbf16>, tensor<1x8x792xbf16>, tensor<1x8x792xbf16>, tensor<1x8x264xbf16>, tensor<1x8x1xf32>, tensor<1x8x264xbf16>) -> tensor<1x8x792xbf16>
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 2>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @steps_with_a_common_factor(%x: tensor<1x8x12xbf16>, %e: tensor<4x1xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected a distance a p - b q + c with coprime a and b on a GPU, found 2 and 2
    %o, %l = dispatch.attention %x, %x, %x, %e attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>, distance_bias, distance = affine_map<(p, q) -> (p * 2 - q * 2)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e0: f32):
      %c = arith.addf %s, %e0 : f32
      dispatch.yield %c : f32
    } : (tensor<1x8x12xbf16>, tensor<1x8x12xbf16>, tensor<1x8x12xbf16>, tensor<4x1xf32>) -> (tensor<1x8x4xbf16>, tensor<1x8x1xf32>)
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @keys_of_f32(%x: tensor<1x8x12xf32>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected queries, keys, values, output gradients and rows by distance of bf16 on a GPU, found 'tensor<1x8x12xf32>'; write "precision": {"compute": "bf16"} in the spec
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x8x12xf32>, tensor<1x8x12xf32>, tensor<1x8x12xf32>) -> (tensor<1x8x4xf32>, tensor<1x8x1xf32>)
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @all_dropped(%x: tensor<1x8x12xbf16>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected dropout in [0, 1), found 1.000000e+00
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>, dropout = 1.0 : f32, random_id = 1 : i64} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x8x12xbf16>, tensor<1x8x12xbf16>, tensor<1x8x12xbf16>) -> (tensor<1x8x4xbf16>, tensor<1x8x1xf32>)
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @mask_of_a_remainder(%x: tensor<1x8x12xbf16>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected a mask that is affine in (p, q) and one length, found affine_set<
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p * n - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x8x12xbf16>, tensor<1x8x12xbf16>, tensor<1x8x12xbf16>) -> (tensor<1x8x4xbf16>, tensor<1x8x1xf32>)
    return
  }
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @score_of_vectors(%x: tensor<1x8x12xbf16>) {
    // CHECK: rejects.mlir:[[#@LINE+1]]:{{[0-9]+}}: --target sm_80: the GPU kernel of {{.*}}: expected scalar arith or math in an attention region, found vector.broadcast
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      %b = vector.broadcast %s : f32 to vector<2xf32>
      %v = vector.extract %b[0] : f32 from vector<2xf32>
      dispatch.yield %v : f32
    } : (tensor<1x8x12xbf16>, tensor<1x8x12xbf16>, tensor<1x8x12xbf16>) -> (tensor<1x8x4xbf16>, tensor<1x8x1xf32>)
    return
  }
}

// -----

// CHECK: rejects.mlir:[[#@LINE+1]]:1: error: expected the module attribute sluice.context, an i64 that a GPU's products are known by, found none
module {
}

// The assembly form of an access leaves out parameters with their default, and names the position p, the value v of an index, the row i of a
// group and the valid length n.
// RUN: sluice-opt %s -split-input-file --verify-diagnostics --allow-unregistered-dialect | FileCheck %s

// CHECK: "test.accesses"() {
"test.accesses"() {
  // CHECK-SAME: a = #dispatch.access<row>,
  a = #dispatch.access<row[p], group = 1, factor = 0, column = 0, index = -1, last = -1>,
  // CHECK-SAME: b = #dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1, outside = 0xFF800000 : f32>,
  b = #dispatch.access<row[4 * p + i - 3], group = 4, factor = 1, outside = 0xFF800000 : f32>,
  // CHECK-SAME: c = #dispatch.access<row[(p - 2) floordiv 3], factor = 3, column = ((p - 2) mod 3) * 8>,
  c = #dispatch.access<row[(p - 2) floordiv 3], column = ((p - 2) mod 3) * 8, factor = 3>,
  // CHECK-SAME: d = #dispatch.access<row[n - 1], group = 2, column = i * 8>,
  d = #dispatch.access<row[n - 1], group = 2, column = 8 * i>,
  // CHECK-SAME: e = #dispatch.access<gather[v - 1], index = 0, extended>,
  e = #dispatch.access<gather[v - 1], index = 0, extended>,
  // CHECK-SAME: f = #dispatch.access<range[v + i], factor = 1, index = 0, last = 1>,
  f = #dispatch.access<range[v + i], last = 1, index = 0, factor = 1>,
  // CHECK-SAME: g = #dispatch.access<columns>,
  g = #dispatch.access<columns>,
  // CHECK-SAME: h = #dispatch.access<range[v + 16], factor = 1, index = 0, last = 1, list = 0, weight = 2>,
  h = #dispatch.access<range[v + 16], weight = 2, list = 0, last = 1, index = 0, factor = 1>,
  // CHECK-SAME: i = #dispatch.access<range[v + i], index = 0, last = 1, softmax = #dispatch.softmax<source = 2, target = 3, norm = 4, leak = 2.000000e-01 : f32 slope = true>>,
  i = #dispatch.access<range[v + i], index = 0, softmax = #dispatch.softmax<source = 2, target = 3, norm = 4, leak = 0.2 : f32 slope = true>, last = 1>,
  // CHECK-SAME: j = #dispatch.access<range[i * n], factor = 1, weight = 2, drawn = 0>
  j = #dispatch.access<range[i * n], drawn = 0, weight = 2, factor = 1>
} : () -> ()

// -----

// expected-error@+1 {{expected group, factor, column, index, last, list, weight, drawn, softmax, outside or extended}}
"test.access"() {a = #dispatch.access<row, rows = 1>} : () -> ()

// -----

// A column depends on no length.
// expected-error@+1 {{use of undeclared identifier}}
"test.access"() {a = #dispatch.access<row, column = n>} : () -> ()

// -----

// The position of a row is p.
// expected-error@+1 {{use of undeclared identifier}}
"test.access"() {a = #dispatch.access<row[v]>} : () -> ()

// Rows of the result of a top_down that have no group of its coarsest scale are not scored, once it is expanded too.
// RUN: sluice-opt %s --verify-diagnostics

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.norm %0 {first_tokens = 3 : i64, path = "stages.1.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %2 = spec.norm %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected "first" of at least 3, as earlier rows have no group of the coarsest scale of a top_down stage, found 2; write "first": 3 in this stage}}
  spec.head %2 {first = 2 : i64, path = "stages.3"} : (!spec.stream<tokens, 8>) -> ()
}

// Attention by sorted hashes: the whole sequence is sorted by bucket, and a row's rank decides which
// chunk of keys it may read. A rank counts the earlier buckets of *all* tokens, so it reads them all;
// masking later keys afterwards does not undo that.
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64, sluice.name = "sorted-hash-ranks", sluice.seed = 0 : i64, sluice.vocabulary = 5 : i64, sluice.width = 4 : i64, sluice.training = {beta1 = 9.0e-01 : f64, beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64, optimizer = "adamw", schedule = "cosine", steps = 1.0e+02 : f64, warmup = 1.0e+01 : f64, weight_decay = 1.0e-01 : f64}} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @last on @target factor 0
  sluice.parameter @token : tensor<5x4xf32> {deviation = 2.0e-02 : f64, initial = "normal", names = ["token"], sizes = array<i64: 5>}
  sluice.parameter @head : tensor<5x4xf32> {deviation = 2.0e-02 : f64, initial = "normal", names = ["head"], sizes = array<i64: 5>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %table = sluice.read @token : tensor<5x4xf32>
    %x = sluice.embed %t, %table : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %rank, %rank_lse = sluice.attention %x, %x, %x attributes {heads = 1, kv_heads = 1, head_size = 4, query_column = 0, key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (0 == 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %placed = sluice.map(%x, %rank) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %y, %y_lse = sluice.attention %placed, %placed, %placed attributes {heads = 1, kv_heads = 1, head_size = 4, query_column = 0, key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %w = sluice.read @head : tensor<5x4xf32>
    %l = sluice.cross_entropy %y, %w, %t {offset = 1} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 5, f32> {
    %table = sluice.read @token : tensor<5x4xf32>
    %x = sluice.embed %t, %table : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %w = sluice.read @head : tensor<5x4xf32>
    %z = sluice.last %x : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %y = sluice.linear %z, %w : (!sluice.seq<@last, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@last, 5, f32>
    return %y : !sluice.seq<@last, 5, f32>
  }
}

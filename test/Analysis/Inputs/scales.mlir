// A module in parts: after this one evaluate.mlir, predict.mlir and last.mlir, and a test's ops, which make %y of the embedded tokens %x,
// after each of the first two. Models with segments have segments.mlir after this one.
#training = {beta1 = 0.9, beta2 = 0.95, clip = 1.0, epsilon = 1.0e-8, floor = 0.1, learning_rate = 1.0e-3, optimizer = "adamw",
  schedule = "cosine", steps = 100.0, warmup = 10.0, weight_decay = 0.1}
!tokens = !sluice.seq<@s1, 0, i32>
!row = !sluice.seq<@s1, 4, f32>
!number = !sluice.seq<@s1, 1, f32>
!coarse = !sluice.seq<@s3, 4, f32>
!folded = !sluice.seq<@s3, 12, f32>
!final = !sluice.seq<@last, 4, f32>
!word = !sluice.seq<@words, 4, f32>
!end = !sluice.seq<@words, 0, i32>
module attributes {sluice.batch = 1 : i64, sluice.context = 12 : i64, sluice.name = "ir", sluice.seed = 0 : i64,
    sluice.training = #training, sluice.vocabulary = 5 : i64, sluice.width = 4 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s3 on @target factor 3
  sluice.scale @last on @target factor 0
  sluice.parameter @e : tensor<5x4xf32> {names = ["e"], sizes = array<i64: 5>, initial = "normal"}
  sluice.parameter @f : tensor<5x4xf32> {names = ["f"], sizes = array<i64: 5>, initial = "normal"}
  sluice.parameter @v : tensor<4xf32> {names = ["v"], sizes = array<i64: 4>, initial = "normal"}
  sluice.parameter @b : tensor<1x4xf32> {names = ["b"], sizes = array<i64: 1>, initial = "normal"}

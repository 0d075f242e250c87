    %l = sluice.cross_entropy %y, %e, %t {offset = 1 : i64} : (!row, tensor<5x4xf32>, !tokens) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%t: !tokens) -> !sluice.seq<@last, 5, f32> {
    %e = sluice.read @e : tensor<5x4xf32>
    %x = sluice.embed %t, %e : (!tokens, tensor<5x4xf32>) -> !row

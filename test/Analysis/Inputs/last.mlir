    %z = sluice.last %y : (!row) -> !sluice.seq<@last, 4, f32>
    %o = sluice.linear %z, %e : (!sluice.seq<@last, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@last, 5, f32>
    return %o : !sluice.seq<@last, 5, f32>
  }
}

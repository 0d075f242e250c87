// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares hand-written declarations with a library's own header.
#pragma once

#include <type_traits>

namespace sluice::test {

template <typename Ours, typename Theirs> constexpr bool sameNumber(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

/// Passed the same way: a pointer for a pointer, an integer or enumerator for one of the same size.
template <typename A, typename B>
constexpr bool areAlike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <typename Ours, typename Theirs> struct Signatures : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
  requires(sizeof...(A) == sizeof...(B))
struct Signatures<R (*)(A...), S (*)(B...)>
    : std::bool_constant<areAlike<R, S> && (areAlike<A, B> && ...)> {};

} // namespace sluice::test

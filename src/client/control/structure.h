// Values made of outputs: an output, a tuple, array or vector of such values,
// or a class that defines how it is flattened. Loops and conditionals take and
// return them.
//
//   struct Point {
//     Output x, y;
//     void Flatten(std::vector<Operand>* out) const {
//       out->insert(out->end(), {x, y});
//     }
//     Point Unflatten(const Output*& next) const {
//       const Output first = *next++;
//       return {first, *next++};
//     }
//   };
#ifndef SLUICE_CLIENT_CONTROL_STRUCTURE_H_
#define SLUICE_CLIENT_CONTROL_STRUCTURE_H_

#include <array>
#include <concepts>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace sluice {

// A class (of the user or a library) that is made of outputs. Flatten appends
// the outputs that change from iteration to iteration; Unflatten builds a value
// like *this from the same number of outputs, starting at *next, and advances
// `next` past them.
template <typename T>
concept FlattensItself = requires(const T& t, std::vector<Operand>* out,
                                  const Output*& next) {
  t.Flatten(out);
  { t.Unflatten(next) } -> std::same_as<T>;
};

template <typename T>
concept OperandLike =
    !FlattensItself<T> && !std::same_as<T, Node*> &&
    (std::convertible_to<const T&, Operand> || std::same_as<T, Operand>);

// How a T is flattened. Type is the unflattened type: numbers and variables
// come back as outputs.
template <typename T>
struct Structure;

template <OperandLike T>
struct Structure<T> {
  using Type = Output;
  static void Flatten(const T& t, SourceLoc loc, std::vector<Operand>* out) {
    if constexpr (std::is_same_v<T, Operand>)
      out->push_back(t);
    else
      out->push_back(Operand(t, loc.file, loc.line));
  }
  static Output Unflatten(const T&, const Output*& next) { return *next++; }
};

template <FlattensItself T>
struct Structure<T> {
  using Type = T;
  static void Flatten(const T& t, SourceLoc, std::vector<Operand>* out) {
    t.Flatten(out);
  }
  static T Unflatten(const T& like, const Output*& next) {
    return like.Unflatten(next);
  }
};

template <typename T>
struct Structure<std::vector<T>> {
  using Type = std::vector<typename Structure<T>::Type>;
  static void Flatten(const std::vector<T>& t, SourceLoc loc,
                      std::vector<Operand>* out) {
    for (const T& x : t) Structure<T>::Flatten(x, loc, out);
  }
  static Type Unflatten(const std::vector<T>& like, const Output*& next) {
    Type made;
    for (const T& x : like) made.push_back(Structure<T>::Unflatten(x, next));
    return made;
  }
};

template <typename T, size_t N>
struct Structure<std::array<T, N>> {
  using Type = std::array<typename Structure<T>::Type, N>;
  static void Flatten(const std::array<T, N>& t, SourceLoc loc,
                      std::vector<Operand>* out) {
    for (const T& x : t) Structure<T>::Flatten(x, loc, out);
  }
  static Type Unflatten(const std::array<T, N>& like, const Output*& next) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return Type{Structure<T>::Unflatten(like[I], next)...};
    }
    (std::make_index_sequence<N>());
  }
};

template <typename... Ts>
struct Structure<std::tuple<Ts...>> {
  using Type = std::tuple<typename Structure<Ts>::Type...>;
  static void Flatten(const std::tuple<Ts...>& t, SourceLoc loc,
                      std::vector<Operand>* out) {
    std::apply(
        [&](const Ts&... x) { (Structure<Ts>::Flatten(x, loc, out), ...); }, t);
  }
  // (Braces guarantee that the parts are evaluated from left to right.)
  static Type Unflatten(const std::tuple<Ts...>& like, const Output*& next) {
    return std::apply(
        [&](const Ts&... x) {
          return Type{Structure<Ts>::Unflatten(x, next)...};
        },
        like);
  }
};

template <typename A, typename B>
struct Structure<std::pair<A, B>> {
  using Type =
      std::pair<typename Structure<A>::Type, typename Structure<B>::Type>;
  static void Flatten(const std::pair<A, B>& t, SourceLoc loc,
                      std::vector<Operand>* out) {
    Structure<A>::Flatten(t.first, loc, out);
    Structure<B>::Flatten(t.second, loc, out);
  }
  static Type Unflatten(const std::pair<A, B>& like, const Output*& next) {
    return Type{Structure<A>::Unflatten(like.first, next),
                Structure<B>::Unflatten(like.second, next)};
  }
};

template <typename T>
using StructureOf = typename Structure<std::decay_t<T>>::Type;

template <typename T>
std::vector<Operand> Flattened(const T& t, SourceLoc loc) {
  std::vector<Operand> out;
  Structure<T>::Flatten(t, loc, &out);
  return out;
}

// A value with the structure of `like` made of `outputs`. REQUIRES: as many
// outputs as `like` flattens into.
template <typename T>
StructureOf<T> Unflattened(const T& like, const std::vector<Output>& outputs) {
  const Output* next = outputs.data();
  return Structure<T>::Unflatten(like, next);
}

namespace internal {

template <typename F, typename T>
inline constexpr bool kTakesParts = false;
template <typename F, typename... Ts>
inline constexpr bool kTakesParts<F, std::tuple<Ts...>> =
    std::is_invocable_v<F&, const Ts&...>;
template <typename F, typename A, typename B>
inline constexpr bool kTakesParts<F, std::pair<A, B>> =
    std::is_invocable_v<F&, const A&, const B&>;
template <typename F, typename T, size_t N>
inline constexpr bool kTakesParts<F, std::array<T, N>> =
    kTakesParts<F, decltype(std::tuple_cat(std::declval<std::array<T, N>>()))>;

}  // namespace internal

namespace internal {

// A value of null outputs that tell the latest failure of the ambient graph. (A
// list, whose length nobody told, is empty.)
template <typename T>
T FailureAs() {
  if constexpr (std::is_same_v<T, Output>) {
    return CurrentGraph().Failure();
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return []<size_t... I>(std::index_sequence<I...>) {
      return T{FailureAs<std::tuple_element_t<I, T>>()...};
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return T();
  }
}

template <typename F>
inline constexpr bool kMayBeEmpty = std::is_pointer_v<F>;
template <typename Signature>
inline constexpr bool kMayBeEmpty<std::function<Signature>> = true;

// Returns f(args...). For an empty std::function: records an error in the graph
// and returns a result of null outputs.
template <typename F, typename... Args>
decltype(auto) Call(F& f, Args&&... args) {
  using R = std::invoke_result_t<F&, Args...>;
  if constexpr (kMayBeEmpty<std::remove_const_t<F>> &&
                std::is_default_constructible_v<R>) {
    if (f == nullptr) {
      BuildError(
          InvalidArgument("callable: expected a function, got an empty one"));
      return FailureAs<R>();
    }
  }
  return f(std::forward<Args>(args)...);
}

}  // namespace internal

// Calls f with the parts of a tuple, array or pair if it accepts them, else
// with the whole value.
template <typename F, typename T>
decltype(auto) CallWith(F& f, const T& t) {
  if constexpr (internal::kTakesParts<F, T>)
    return std::apply(
        [&f](const auto&... parts) -> decltype(auto) {
          return internal::Call(f, parts...);
        },
        t);
  else
    return internal::Call(f, t);
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_STRUCTURE_H_

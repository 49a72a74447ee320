// Status and Result: how Tutti reports what went wrong.
//
// A Status is a code (the C API's tuttiResult_t) and one sentence for a person: what was wrong, what is allowed, what to
// try. Success carries no allocation. Functions that can fail return [[nodiscard]] Status or Result<T>; TUTTI_TRY
// hands a failure to the caller. No exception crosses a function that returns Status.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(tuttiResult_t code, std::string message)
      : error_(std::make_shared<const Error>(Error{code, std::move(message)})) {}

  static Status success() { return {}; }
  bool ok() const { return error_ == nullptr; }
  tuttiResult_t code() const { return ok() ? tuttiSuccess : error_->code; }
  std::string_view message() const { return ok() ? std::string_view("success") : std::string_view(error_->message); }
  const char* c_str() const { return ok() ? "success" : error_->message.c_str(); }

  // The same failure, seen from further out: "context: message".
  Status within(std::string_view context) const {
    return ok() ? Status() : Status(error_->code, fmt::format("{}: {}", context, error_->message));
  }

 private:
  struct Error {
    tuttiResult_t code;
    std::string message;
  };
  std::shared_ptr<const Error> error_;
};

// A T or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}             // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {      // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Status(tuttiInternalError, "a Result was made from a successful Status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

template <class... Args>
Status fail(tuttiResult_t code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
Status invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return fail(tuttiInvalidArgument, format, std::forward<Args>(args)...);
}
template <class... Args>
Status invalid_usage(fmt::format_string<Args...> format, Args&&... args) {
  return fail(tuttiInvalidUsage, format, std::forward<Args>(args)...);
}

// A failed system call: "call: strerror (ERRNO n); advice".
Status system_error(std::string_view call, int error_number, std::string_view advice = {});

inline const Status& status_of(const Status& status) { return status; }
template <class T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

}  // namespace tutti

#define TUTTI_CONCAT_INNER(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT_INNER(a, b)

// TUTTI_TRY(expression): returns the failure of a Status from the enclosing function.
#define TUTTI_TRY(expression)                                          \
  do {                                                                 \
    if (auto tutti_try_ = (expression); !tutti_try_.ok()) [[unlikely]] \
      return ::tutti::status_of(tutti_try_);                           \
  } while (false)

// TUTTI_TRY_ASSIGN(auto x, expression): the same for a Result, binding its value on success.
#define TUTTI_TRY_ASSIGN(declaration, expression)                                                   \
  auto TUTTI_CONCAT(tutti_result_, __LINE__) = (expression);                                        \
  if (!TUTTI_CONCAT(tutti_result_, __LINE__).ok()) return TUTTI_CONCAT(tutti_result_, __LINE__).status(); \
  declaration = std::move(TUTTI_CONCAT(tutti_result_, __LINE__)).value()

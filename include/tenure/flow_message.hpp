// flow_message.hpp: what a program sends to a workflow together with other things.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenure/detail/flow_values.hpp"

namespace tenure {

// For Engine::start_or_signal(). A value; text is copied.
class Signal {
 public:
  // A signal with an id that the workflow was sent before is dropped.
  template <class T>
  Signal(std::string name, const T& value, std::string message_id = {})
      : name_(std::move(name)), message_id_(std::move(message_id)) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      value_ = Codec<std::string>::encode(std::string{std::string_view{value}});
    } else {
      value_ = detail::encode_result(value);
    }
  }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& value() const noexcept { return value_; }  // Encoded.
  [[nodiscard]] const std::string& message_id() const noexcept { return message_id_; }

 private:
  std::string name_;
  std::string value_;
  std::string message_id_;
};

}  // namespace tenure

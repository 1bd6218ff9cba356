#include "flow/children.hpp"

#include <charconv>

namespace tenure::flow {
namespace {

// "12.3", and what follows the space after it.
struct KeyAndRest {
  OpKey key;
  std::string_view rest;
};

std::optional<KeyAndRest> parse_key(std::string_view text) {
  KeyAndRest out;
  const char* const end = text.data() + text.size();
  const auto scope = std::from_chars(text.data(), text.data() + text.size(), out.key.scope);
  if (scope.ec != std::errc{} || scope.ptr == end || *scope.ptr != '.') return std::nullopt;
  const auto sequence = std::from_chars(scope.ptr + 1, end, out.key.sequence);
  if (sequence.ec != std::errc{} || sequence.ptr == end || *sequence.ptr != ' ') {
    return std::nullopt;
  }
  out.rest = text.substr(static_cast<std::size_t>(sequence.ptr + 1 - text.data()));
  return out;
}

std::string key_text(const OpKey& key) {
  return std::to_string(key.scope) + "." + std::to_string(key.sequence) + " ";
}

}  // namespace

std::string text_of(const ParentLink& link) { return key_text(link.key) + link.id; }

std::optional<ParentLink> parse_parent(std::string_view text) {
  const std::optional<KeyAndRest> parsed = parse_key(text);
  if (!parsed) return std::nullopt;
  return ParentLink{.id = std::string{parsed->rest}, .key = parsed->key};
}

Message child_ended(const ParentLink& parent, const detail::ChildEnd& end) {
  const std::string value(1, static_cast<char>(end.state));
  return {.kind = Message::Kind::child_ended,
          .workflow = parent.id,
          .name = key_text(parent.key) + end.id,
          .value = value + end.value};
}

std::optional<EndedChild> parse_child_ended(const Message& message) {
  const std::optional<KeyAndRest> name = parse_key(message.name);
  if (!name || message.value.empty()) return std::nullopt;
  const auto state = static_cast<std::uint8_t>(message.value.front());
  if (state > static_cast<std::uint8_t>(FlowState::timed_out) ||
      !is_terminal(static_cast<FlowState>(state))) {
    return std::nullopt;
  }
  return EndedChild{.key = name->key,
                    .end = {.id = std::string{name->rest},
                            .state = static_cast<FlowState>(state),
                            .value = message.value.substr(1)}};
}

std::optional<Message> parent_closed(const detail::ChildState& child, const std::string& parent) {
  if (child.ended || child.on_parent_close == ParentClose::abandon) return std::nullopt;
  Message message{.kind = Message::Kind::cancel, .workflow = child.id, .name = {}, .value = {}};
  if (child.on_parent_close == ParentClose::terminate) {
    message.kind = Message::Kind::terminate;
    message.value = "its parent '" + parent + "' has ended";
  }
  return message;
}

}  // namespace tenure::flow

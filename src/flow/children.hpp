// children.hpp: how a child names its parent, and the messages between the two.
//
// A child's record has a link to its parent: the operation that started it and the parent's id. The
// transaction that ends the child puts a message into the inbox of the parent's partition; the one
// that ends the parent puts messages for the children that have not ended.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "flow/entry.hpp"

namespace tenure::flow {

struct ParentLink {
  std::string id;
  OpKey key;
  friend bool operator==(const ParentLink&, const ParentLink&) = default;
};
// "SCOPE.SEQUENCE PARENT"
[[nodiscard]] std::string text_of(const ParentLink& link);
// Nothing: the text is empty, or is no link.
[[nodiscard]] std::optional<ParentLink> parse_parent(std::string_view text);

// A child tells its parent that it has ended.
[[nodiscard]] Message child_ended(const ParentLink& parent, const detail::ChildEnd& end);
// Nothing: the message cannot be read.
struct EndedChild {
  OpKey key;
  detail::ChildEnd end;
};
[[nodiscard]] std::optional<EndedChild> parse_child_ended(const Message& message);
// A parent that ends tells a child; nothing: the child is left alone.
[[nodiscard]] std::optional<Message> parent_closed(const detail::ChildState& child,
                                                   const std::string& parent);

}  // namespace tenure::flow

#include "flow/entry.hpp"

#include <utility>

namespace tenure::flow {
namespace {

constexpr char format = 1;

class Writer {
 public:
  explicit Writer(std::size_t about) { bytes_.reserve(about); }
  void byte(std::uint8_t value) { bytes_ += static_cast<char>(value); }
  void fixed(std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) byte(static_cast<std::uint8_t>(value >> shift));
  }
  void time(Instant value) { fixed(static_cast<std::uint64_t>(value.time_since_epoch().count())); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) byte(static_cast<std::uint8_t>(value | 0x80U));
    byte(static_cast<std::uint8_t>(value));
  }
  void text(std::string_view value) {
    varint(value.size());
    bytes_ += value;
  }
  void rest(std::string_view value) { bytes_ += value; }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Never reads past the end: what is missing is zero, and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  std::uint8_t byte() {
    if (left_.empty()) {
      ok_ = false;
      return 0;
    }
    const auto value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  std::uint64_t fixed() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8U | byte();
    return value;
  }
  Instant time() { return Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(fixed())}}; }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = byte();
      value |= std::uint64_t{next & 0x7fU} << shift;
      if ((next & 0x80U) == 0) return value;
    }
    ok_ = false;
    return 0;
  }
  std::uint32_t number() {
    const std::uint64_t value = varint();
    if (value > 0xffffffffU) ok_ = false;
    return static_cast<std::uint32_t>(value);
  }
  std::string text() {
    const std::uint64_t size = varint();
    if (size > left_.size()) {
      ok_ = false;
      return {};
    }
    std::string value{left_.substr(0, size)};
    left_.remove_prefix(size);
    return value;
  }
  std::string rest() { return std::string{std::exchange(left_, {})}; }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] bool done() const noexcept { return ok_ && left_.empty(); }
  void fail() noexcept { ok_ = false; }

 private:
  std::string_view left_;
  bool ok_ = true;
};

// Parts of a record that were added later. Stored: never reuse a number.
constexpr std::uint8_t tag_run = 1;
constexpr std::uint8_t tag_root = 2;
constexpr std::uint8_t tag_seat = 3;
constexpr std::uint8_t tag_trigger = 4;

bool is_message_kind(std::uint8_t kind) noexcept {
  using enum Message::Kind;
  return (kind >= static_cast<std::uint8_t>(start) && kind <= static_cast<std::uint8_t>(retry)) ||
         (kind >= static_cast<std::uint8_t>(trigger_changed) &&
          kind <= static_cast<std::uint8_t>(collect));
}

std::string other_format(std::string_view what, std::uint8_t found) {
  return std::string{what} + " has format " + std::to_string(found) +
         ", and this program knows format 1: use the version that wrote it, or a newer one";
}

void write_optional(Writer& writer, const std::optional<Instant>& time) {
  writer.byte(time ? 1 : 0);
  if (time) writer.time(*time);
}

std::optional<Instant> read_optional(Reader& reader) {
  if (reader.byte() == 0) return std::nullopt;
  return reader.time();
}

}  // namespace

bool is_entry_kind(std::uint8_t kind) noexcept {
  return (kind >= static_cast<std::uint8_t>(EntryKind::step_done) &&
          kind <= static_cast<std::uint8_t>(EntryKind::lock_released)) ||
         (kind >= static_cast<std::uint8_t>(EntryKind::child_started) &&
          kind <= static_cast<std::uint8_t>(EntryKind::update));
}

std::string encode(const LogEntry& entry) {
  Writer writer{34 + entry.name.size() + entry.value.size()};
  writer.byte(format);
  writer.byte(static_cast<std::uint8_t>(entry.kind));
  writer.time(entry.stamp);
  writer.fixed(entry.hash);
  writer.varint(entry.key.scope);
  writer.varint(entry.key.sequence);
  writer.varint(entry.attempt);
  writer.text(entry.name);
  writer.rest(entry.value);
  return writer.take();
}

std::expected<LogEntry, std::string> decode_entry(std::string_view bytes) {
  Reader reader{bytes};
  const std::uint8_t version = reader.byte();
  if (reader.ok() && version != format) {
    return std::unexpected(other_format("the entry", version));
  }
  const std::uint8_t kind = reader.byte();
  LogEntry entry;
  entry.stamp = reader.time();
  entry.hash = reader.fixed();
  entry.key.scope = reader.number();
  entry.key.sequence = reader.number();
  entry.attempt = reader.number();
  entry.name = reader.text();
  entry.value = reader.rest();
  if (!reader.ok()) return std::unexpected("the entry is cut off or damaged");
  if (!is_entry_kind(kind)) {
    return std::unexpected("the entry has the unknown kind " + std::to_string(kind) +
                           ": a newer version wrote it");
  }
  entry.kind = static_cast<EntryKind>(kind);
  return entry;
}

std::string shown(const LogEntry& entry) {
  std::string text = std::string{text_of(entry.kind)} + " '" + entry.name + "'";
  if (entry.kind != EntryKind::signal && entry.kind != EntryKind::cancel &&
      entry.kind != EntryKind::patch && entry.kind != EntryKind::update) {
    text += " (scope " + std::to_string(entry.key.scope) + ", sequence " +
            std::to_string(entry.key.sequence) + ")";
  }
  return text;
}

std::string encode(const Record& record) {
  Writer writer{96 + record.type.size() + record.input.size() + record.result.size()};
  writer.byte(format);
  writer.byte(static_cast<std::uint8_t>(record.state));
  writer.fixed(record.seed);
  writer.time(record.created);
  writer.time(record.starts);
  write_optional(writer, record.deadline);
  write_optional(writer, record.ended);
  writer.text(record.type);
  writer.text(record.idempotency_key);
  writer.text(record.admission);
  writer.text(record.parent);
  writer.varint(record.tags.size());
  for (const auto& [name, value] : record.tags) {
    writer.text(name);
    writer.text(value);
  }
  writer.text(record.input);
  writer.text(record.result);
  if (record.run > 0) {
    Writer run{16};
    run.varint(record.run);
    run.varint(record.last.scope);
    run.varint(record.last.sequence);
    run.varint(record.carried);
    writer.byte(tag_run);
    writer.text(run.take());
  }
  const auto add = [&writer](std::uint8_t tag, const std::string& text) {
    if (text.empty()) return;
    writer.byte(tag);
    writer.text(text);
  };
  add(tag_root, record.root);
  add(tag_seat, record.seat);
  add(tag_trigger, record.trigger);
  return writer.take();
}

namespace {

// Null: an unknown part.
std::string* text_part(Record& record, std::uint8_t tag) noexcept {
  switch (tag) {
    case tag_root: return &record.root;
    case tag_seat: return &record.seat;
    case tag_trigger: return &record.trigger;
    default: return nullptr;
  }
}

}  // namespace

std::expected<Record, std::string> decode_record(std::string_view bytes) {
  Reader reader{bytes};
  const std::uint8_t version = reader.byte();
  if (reader.ok() && version != format) {
    return std::unexpected(other_format("the record", version));
  }
  Record record;
  const std::uint8_t state = reader.byte();
  record.seed = reader.fixed();
  record.created = reader.time();
  record.starts = reader.time();
  record.deadline = read_optional(reader);
  record.ended = read_optional(reader);
  record.type = reader.text();
  record.idempotency_key = reader.text();
  record.admission = reader.text();
  record.parent = reader.text();
  for (std::uint64_t left = reader.varint(); left > 0 && reader.ok(); --left) {
    std::string name = reader.text();
    record.tags.insert_or_assign(std::move(name), reader.text());
  }
  record.input = reader.text();
  record.result = reader.text();
  while (reader.ok() && !reader.done()) {
    const std::uint8_t tag = reader.byte();
    const std::string value = reader.text();
    if (!reader.ok()) break;
    if (tag == tag_run) {
      Reader run{value};
      record.run = run.number();
      record.last.scope = run.number();
      record.last.sequence = run.number();
      record.carried = run.number();
      if (!run.done() || record.run == 0) reader.fail();
    } else if (std::string* const text = text_part(record, tag)) {
      if (value.empty() || !text->empty()) reader.fail();
      *text = value;
    } else {
      return std::unexpected("the record has the unknown part " + std::to_string(tag) +
                             ": a newer version wrote it");
    }
  }
  // A queued one knows its seat: type, key and number are in it.
  if (state == static_cast<std::uint8_t>(FlowState::queued) && record.seat.size() < 10)
    reader.fail();
  if (!reader.done() || state > static_cast<std::uint8_t>(FlowState::queued)) {
    return std::unexpected("the record is cut off or damaged");
  }
  record.state = static_cast<FlowState>(state);
  return record;
}

std::string encode(const Message& message) {
  Writer writer{8 + message.workflow.size() + message.name.size() + message.value.size()};
  writer.byte(format);
  writer.byte(static_cast<std::uint8_t>(message.kind));
  writer.text(message.workflow);
  writer.text(message.name);
  writer.rest(message.value);
  return writer.take();
}

std::expected<Message, std::string> decode_message(std::string_view bytes) {
  Reader reader{bytes};
  const std::uint8_t version = reader.byte();
  if (reader.ok() && version != format) {
    return std::unexpected(other_format("the message", version));
  }
  const std::uint8_t kind = reader.byte();
  Message message;
  message.workflow = reader.text();
  message.name = reader.text();
  message.value = reader.rest();
  if (!reader.ok()) return std::unexpected("the message is cut off or damaged");
  if (!is_message_kind(kind)) {
    return std::unexpected("the message has the unknown kind " + std::to_string(kind) +
                           ": a newer version wrote it");
  }
  message.kind = static_cast<Message::Kind>(kind);
  return message;
}

}  // namespace tenure::flow

// known.hpp: what a connection has read and nobody can have changed since, so that it need not ask
// again.
//
// A process that locks and releases while nobody else writes asks the same few questions each time:
// is my session still there, is there anything above or below this path? SQLite counts whether
// another connection, of whatever process, has written (its data version). While that stands still,
// an entry that was there still is, and a range in which there was nothing has only what this
// connection wrote there itself.
//
// Invariant: everything is forgotten as soon as the version has moved, and at a rollback.
//
// Thread safety: none; it is its connection's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::sqlite {

class Known {
 public:
  void forget() noexcept {
    present_.clear();
    spans_.clear();
    written_.clear();
  }
  void begin_transaction() noexcept { written_.clear(); }

  [[nodiscard]] bool present(std::string_view key) const noexcept {
    return std::ranges::find(present_, key) != present_.end();
  }
  // Nothing with a stamp before that; zero: nothing at all.
  [[nodiscard]] bool empty(const Range& range, Revision before) const noexcept {
    const auto span = std::ranges::find_if(
        spans_, [&range](const Span& one) { return one.from == range.from && one.to == range.to; });
    if (span == spans_.end()) return false;
    return std::ranges::all_of(span->own, [before](const std::string& key) {
      return before != Revision{} && stamp_of(key) >= before;
    });
  }
  // By this transaction, and not removed since.
  [[nodiscard]] bool written(std::string_view key) const noexcept {
    return std::ranges::find(written_, key) != written_.end();
  }

  void saw(std::string_view key) {
    if (present_.size() == most) present_.clear();
    present_.emplace_back(key);
  }
  // There is no entry in it, whatever its stamp, that this transaction has not written.
  void saw_nothing(const Range& range) {
    Span span{.from = range.from, .to = range.to, .own = {}};
    for (const std::string& key : written_) {
      if (span.has(key)) span.own.push_back(key);
    }
    if (spans_.size() == most) spans_.clear();
    spans_.push_back(std::move(span));
  }
  void wrote(std::string_view key) {
    written_.emplace_back(key);
    if (!present(key)) saw(key);
    std::erase_if(spans_,
                  [key](const Span& span) { return span.own.size() == most && span.has(key); });
    for (Span& span : spans_) {
      if (span.has(key)) span.own.emplace_back(key);
    }
  }
  void removed(std::string_view key) {
    std::erase(written_, key);
    std::erase(present_, key);
    for (Span& span : spans_) std::erase(span.own, key);
  }

 private:
  struct Span {
    std::string from;
    std::string to;                // Empty: no end.
    std::vector<std::string> own;  // The only keys in it.
    [[nodiscard]] bool has(std::string_view key) const noexcept {
      return key >= from && (to.empty() || key < to);
    }
  };
  // Enough for a few claims of some depth; a process with more asks again.
  static constexpr std::size_t most = 16;

  std::vector<std::string> present_;
  std::vector<Span> spans_;
  std::vector<std::string> written_;
};

}  // namespace tenure::sqlite
